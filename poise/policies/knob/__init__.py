"""Knobs: settings of devices that a controller turns while they serve. One file each, named as the field names it."""
