# SPDX-License-Identifier: MIT
"""Exports GPU memory as a descriptor to a peer that merely keeps it: "ready PID PEER". usage: park_export.py MIB"""
import ctypes as c
import os
import signal
import subprocess
import sys


class Location(c.Structure):
    _fields_ = [("type", c.c_int), ("id", c.c_int)]


class Flags(c.Structure):
    _fields_ = [("compression", c.c_ubyte), ("rdma", c.c_ubyte), ("usage", c.c_ushort), ("reserved", c.c_ubyte * 4)]


class Prop(c.Structure):
    _fields_ = [("type", c.c_int), ("handles", c.c_int), ("location", Location), ("win32", c.c_void_p), ("flags", Flags)]


cuda = c.CDLL("libcuda.so.1")


def check(what, code):
    if code != 0:
        sys.exit(f"park_export: {what}: {code}")


device, context, handle, fd = c.c_int(), c.c_void_p(), c.c_ulonglong(), c.c_int()
check("cuInit", cuda.cuInit(0))
check("cuDeviceGet", cuda.cuDeviceGet(c.byref(device), 0))
check("cuCtxCreate", cuda.cuCtxCreate_v2(c.byref(context), 0, device))
prop = Prop(type=1, handles=1, location=Location(1, device.value))
check("cuMemCreate", cuda.cuMemCreate(c.byref(handle), c.c_size_t(int(sys.argv[1]) << 20), c.byref(prop), c.c_ulonglong(0)))
check("export", cuda.cuMemExportToShareableHandle(c.byref(fd), handle, 1, c.c_ulonglong(0)))
os.set_inheritable(fd.value, True)
peer = subprocess.Popen(["sleep", "100000"], pass_fds=[fd.value])
os.close(fd.value)
print("ready", os.getpid(), peer.pid, flush=True)
while True:
    signal.pause()
