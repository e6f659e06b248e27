"""Serves one model on loopback: serve.py WEIGHTS PORT THREADS SLOTS. Ends with its standard input."""

import sys

import xllamacpp

weights = sys.argv[1]
port, threads, slots = map(int, sys.argv[2:5])
settings = xllamacpp.CommonParams()
settings.model.path = weights
settings.hostnames = ["127.0.0.1"]
settings.port = port
settings.cpuparams.n_threads = threads
settings.cpuparams_batch.n_threads = threads
settings.n_parallel = slots
settings.n_ctx = slots * 4096
settings.n_gpu_layers = 0
settings.offline = True
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
# The parent holds the other end open: when it ends, however it ends, so does this server.
sys.stdin.read()
