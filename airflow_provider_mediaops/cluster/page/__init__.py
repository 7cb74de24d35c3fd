"""Write the page of captures: one HTML file that asks for nothing over the network."""
