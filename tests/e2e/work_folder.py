"""What tests of the command line that take --aotc and --work have in common."""
import os

import arguments


class WorkFolder:
    """The folder of a test, emptied, and the aotc that it is about; called with a name, the path of that file in it."""

    def __init__(self):
        o = arguments.parse()
        self.aotc, self.dir = o.aotc, o.work
        os.makedirs(self.dir, exist_ok=True)
        for name in os.listdir(self.dir):
            os.remove(self(name))

    def __call__(self, name):
        return os.path.join(self.dir, name)
