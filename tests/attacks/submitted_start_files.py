"""Hands in what Python, a shell and git run by themselves: sitecustomize, .pth, hooks, rc files."""

EXERCISE = "scaling_ex01"
STRIKE = 'open("@CANARY@", "a").write("started")\n'
FOLDER = "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/"
FILES = {
    f"{place}{name}": STRIKE
    for place in ("", FOLDER)
    for name in ("sitecustomize.py", "usercustomize.py", "__init__.py", "__main__.py", "startup.py")
} | {
    "evil.pth": "import os; open('@CANARY@', 'a').write('pth')\n",
    ".git/config": '[core]\n\tfsmonitor = "echo x >> \'@CANARY@\'"\n\thooksPath = hooks\n[filter "x"]\n\tclean = false\n',
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/hooks/post-checkout": "#!/bin/sh\necho hook >> '@CANARY@'\n",
    ".gitattributes": "* filter=x\n",
    ".envrc": "echo x >> '@CANARY@'\n",
    "Makefile": "all:\n\techo x >> '@CANARY@'\n",
}
SUBMITTED = "def attack(name, *args, **kwargs):\n    return {}\n"
