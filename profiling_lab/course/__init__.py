"""The course on this machine: `manifest` reads it, `stubs` makes what the learner gets, `progress` keeps
what has passed (`closure`: as long as what it rests on is unchanged), `doctor` looks at the machine, and
`quiz` asks questions about captures.
"""
