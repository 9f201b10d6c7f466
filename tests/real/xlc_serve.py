"""A real llama.cpp server (the native C++ one, in this process) on a free port of 127.0.0.1.

    python xlc_serve.py MODEL.gguf

Prints `listening on http://ADDR`, then serves until its standard input closes: whoever started it holds
the other end, so the server ends with its parent however that ends.
"""

import sys

import xllamacpp


def parameters(model):
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"tiny"} if not isinstance(params.model_alias, str) else "tiny"
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = 4
    params.n_ctx = 32768
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.endpoint_props = True
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.warmup = False
    return params


def main(model):
    server = xllamacpp.Server(parameters(model))
    print(f"listening on {server.listening_address}", flush=True)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    main(sys.argv[1])
