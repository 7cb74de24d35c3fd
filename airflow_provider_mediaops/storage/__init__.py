"""Datasets: records written beside their destination and published whole."""
