"""Raises what ordinary handlers let through: KeyboardInterrupt, GeneratorExit, kinds of its own."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
class Own(BaseException): pass
class Interrupt(KeyboardInterrupt): pass
kinds = [KeyboardInterrupt, GeneratorExit, Own, Interrupt, StopIteration, StopAsyncIteration,
         RecursionError, MemoryError, EOFError, BrokenPipeError, ConnectionResetError, TimeoutError]

def attack(name, *args, **kwargs):
    kinds.append(kinds.pop(0))
    raise kinds[0]("passed")
"""
