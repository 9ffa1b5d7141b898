"""The shared lowering pipeline: plain functions from an edge program to a delegate's payload and blobs."""
