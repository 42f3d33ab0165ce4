"""Raises from other threads, by signals and asynchronously, at the moment of answering."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
DANGEROUS = True
SUBMITTED = r"""
import _thread, ctypes, os, signal, threading, time

def storm(main):
    for _ in range(200):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(SystemExit))
        _thread.interrupt_main()
        time.sleep(0.001)

def knee_batch(rows, share=0.9):
    threading.Thread(target=storm, args=(threading.get_ident(),), daemon=True).start()
    signal.signal(signal.SIGINT, lambda *args: os._exit(0))
    return {"knee": 4, "best": 4, "undecided": []}
"""
