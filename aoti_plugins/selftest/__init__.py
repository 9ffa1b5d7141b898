"""A test of one machine: programs made elsewhere, their inputs, and the outputs there should be.

``make_bundle`` needs torch and what lowering for the device needs; ``run_bundle`` needs neither.
"""
