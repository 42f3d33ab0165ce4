"""Starts threads without an end, each with a large stack."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
DANGEROUS = True
SUBMITTED = r"""
import threading, time
threading.stack_size(64 << 20)

def knee_batch(rows, share=0.9):
    threads = []
    try:
        while True:
            threads.append(threading.Thread(target=time.sleep, args=(30,), daemon=True))
            threads[-1].start()
    except RuntimeError:
        pass
    return {"threads": len(threads)}
"""
