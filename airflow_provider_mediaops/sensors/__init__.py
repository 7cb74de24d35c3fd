"""Sensors: tasks that wait for something at a service."""
