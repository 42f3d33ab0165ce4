"""Speaks to what is no TCP server: netlink, packets, raw IP, vsock, Bluetooth, the kernel's ciphers."""

EXERCISE = "scaling_ex01"
WANTS = ("knee_batch",)
SUBMITTED = r"""
import socket

def knee_batch(rows, share=0.9):
    for family, kind, protocol in ((16, 3, 0), (16, 3, 9), (17, 3, 768), (2, 3, 1), (40, 1, 0), (31, 3, 1), (38, 5, 0)):
        try:
            end = socket.socket(family, kind, protocol)
            end.settimeout(0.05)
            if family == 40:
                end.connect((2, 22))
            elif family == 16:
                end.bind((0, 0xFFFFFFFF))
                end.send(bytes.fromhex("14000000120001030000000000000000") + bytes(4))
        except (OSError, TypeError, OverflowError):
            pass
    return {}
"""
