"""The shared lowering pipeline: from an edge program to a delegate's payload and blobs."""
