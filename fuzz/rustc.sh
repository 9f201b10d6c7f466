#!/bin/sh
# A rustc that instruments the project's own code for libFuzzer. The compiler behind wasmtime is left as it is: its
# branches would drown those of the host, and cost most of the time.
rustc="$1"
shift
case " $* " in
*" --crate-name sluicegate "* | *" --crate-name load "* | *" --crate-name kv_events "*)
    exec "$rustc" "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
*) exec "$rustc" "$@" ;;
esac
