# ruff: noqa: N802 - the stand-ins have the names of NVML
from __future__ import annotations

import json
import subprocess
import sys
import threading
import types

import pytest

from profiling_lab.tools import gpu_monitor
from profiling_lab.tools.easy_profiler import GPUMonitor


class NVMLError(Exception):
    """Stands for pynvml.NVMLError."""


class FakeNvml(types.ModuleType):
    """pynvml on a machine with GPUs; `refuse` names what raises; each reading uses 0.1 s more."""

    NVML_TEMPERATURE_GPU, NVML_CLOCK_SM = 0, 1
    NVMLError = NVMLError

    def __init__(self, count=2, refuse=(), counter=True) -> None:
        super().__init__("pynvml")
        self.count, self.refuse, self.counter, self.open = count, set(refuse), counter, 0
        self.energy_mj = 1_000

    def nvmlInit(self):
        self._may("init")
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlDeviceGetCount(self):
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index):
        if index >= self.count:
            raise NVMLError("Invalid Argument")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return 1

    def nvmlDeviceGetIndex(self, handle):
        return handle

    def nvmlDeviceGetName(self, handle):
        return f"Fake {handle}"

    def nvmlDeviceGetUtilizationRates(self, handle):
        self._may("utilization")
        return types.SimpleNamespace(gpu=50)

    def nvmlDeviceGetMemoryInfo(self, handle):
        self._may("memory")
        return types.SimpleNamespace(total=1000, used=100 + handle)

    def nvmlDeviceGetPowerUsage(self, handle):
        self._may("power")
        return 200_000

    def nvmlDeviceGetTemperature(self, handle, kind):
        return 40

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return 1980

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return 0x4 | 0x1

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        self._may("energy")
        self.energy_mj += 5_000 if self.counter else 0
        return self.energy_mj

    def _may(self, what):
        if what in self.refuse:
            raise NVMLError("Insufficient Permissions")


@pytest.fixture
def nvml(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def install(**options):
        fake = FakeNvml(**options)
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        return fake

    return install


def monitored(devices=None):
    """A monitor that took at least three readings of each GPU."""
    monitor = GPUMonitor(0.001, devices)
    with monitor:
        done = threading.Event()
        while not all(len(each) > 2 for each in monitor.samples.values()):
            done.wait(0.001)
    return monitor


def test_every_gpu_is_summed_up(nvml):
    fake = nvml()
    monitor = monitored()
    summary = monitor.get_summary()
    assert [device.name for device in summary.devices] == ["Fake 0", "Fake 1"]
    second = summary.devices[1]
    assert (second.utilization_mean_pct, second.power_mean_w) == (50, 200)
    assert (second.memory_max_bytes, second.memory_total_bytes) == (101, 1000)
    assert (second.energy_source, second.limited_pct) == ("counter", {"power cap": 100})
    assert second.energy_j == pytest.approx(5 * len(summary.devices))
    assert fake.open == 0, "NVML is closed"
    assert not [each for each in threading.enumerate() if each.name == "GPUMonitor"]
    text = str(summary)
    assert "GPU 1, Fake 1" in text and "power cap 100 %" in text and "Shorter than" in text
    json.dumps(summary.to_dict())
    times = [sample.time_s for sample in monitor.samples[0]]
    assert times[0] == 0 and times == sorted(times) and times[-1] <= summary.duration_s


def test_a_counter_that_stands_still_gives_way_to_power_over_time(nvml):
    nvml(count=1, counter=False)
    monitor = monitored()
    (device,) = monitor.get_summary().devices
    assert device.energy_source == "power"
    (samples,) = monitor.samples.values()
    assert device.energy_j == pytest.approx(200 * (samples[-1].time_s - samples[0].time_s))


def test_what_the_driver_refuses_is_named_and_the_rest_is_there(nvml):
    nvml(count=1, refuse=("power", "energy", "utilization"))
    (device,) = monitored().get_summary().devices
    assert set(device.refused) == {"power", "energy counter", "utilization"}
    assert device.power_mean_w is None and device.energy_j is None
    assert device.memory_max_bytes == 100
    assert "Insufficient Permissions" in str(monitored().get_summary())


@pytest.mark.parametrize(
    ("visible", "indices"),
    [("1", [1]), ("GPU-abc", [1]), ("MIG-abc", [1]), ("", []), ("0,-1,1", [0]), ("0,\u00b2", [0])],
)
def test_only_what_the_program_sees_is_watched(nvml, monkeypatch, visible, indices):
    nvml()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    summary = monitored().get_summary()
    assert [device.index for device in summary.devices] == indices
    assert bool(summary.message) == (not indices)


def test_a_device_that_is_not_there_is_named_and_the_others_are_read(nvml):
    nvml(count=1)
    summary = monitored([7, 0, 8]).get_summary()
    assert len(summary.devices) == 1
    assert "GPU 7 was not read" in summary.message and "GPU 8 was not read" in summary.message


def test_an_older_package_lacks_one_function_and_the_rest_is_read(nvml, monkeypatch):
    nvml(count=1)
    monkeypatch.delattr(FakeNvml, "nvmlDeviceGetCurrentClocksEventReasons")
    (device,) = monitored().get_summary().devices
    assert "nvidia-ml-py is too old" in device.refused["clock limits"]
    assert device.power_mean_w == 200


@pytest.mark.parametrize("hangs", ["init", "utilization"])
def test_a_driver_that_hangs_does_not_hold_the_program(nvml, monkeypatch, hangs):
    fake = nvml(count=1)
    if hangs == "init":
        monkeypatch.setattr(gpu_monitor, "PATIENCE_S", 0.01)
    monitor = GPUMonitor(0.001)
    wakes, stuck = threading.Event(), threading.Event()

    def may(what):
        if what == hangs and (hangs == "init" or len(monitor.samples.get(0, [])) > 2):
            stuck.set()
            wakes.wait()

    fake._may = may
    with monitor:
        stuck.wait()
        monkeypatch.setattr(gpu_monitor, "PATIENCE_S", 0.01)
        thread = monitor._thread
    summary = monitor.get_summary()
    wakes.set()
    thread.join()
    assert "Does nvidia-smi answer?" in summary.message and summary.duration_s > 0
    assert [device.sample_count for device in summary.devices] == ([] if hangs == "init" else [3])
    assert "No GPU was read" in str(summary) or summary.devices[0].energy_source == "power"
    assert len(monitor.samples) == len(summary.devices), "what comes too late is not taken"


@pytest.mark.parametrize("lacking", ["driver", "package"])
def test_without_a_gpu_it_says_so_and_still_times(nvml, monkeypatch, lacking):
    if lacking == "driver":
        nvml(refuse=("init",))
    else:
        monkeypatch.setitem(sys.modules, "pynvml", None)
    with GPUMonitor() as monitor:
        pass
    summary = monitor.get_summary()
    assert summary.devices == () and summary.duration_s > 0
    assert "No GPU was read" in str(summary) and "measured" in str(summary)


def test_a_monitor_can_be_used_again_but_not_twice_at_once(nvml):
    nvml(count=1)
    monitor = monitored()
    first = len(monitor.samples[0])
    monitor.start()
    with pytest.raises(RuntimeError, match="running already"):
        monitor.start()
    monitor.stop()
    monitor.stop()
    assert len(monitor.samples[0]) < first + 3
    with pytest.raises(ValueError, match="above 0"):
        GPUMonitor(interval_s=0)


def test_an_error_in_the_monitored_code_passes_and_the_readings_stay(nvml):
    nvml(count=1)
    with pytest.raises(KeyError), GPUMonitor() as monitor:
        raise KeyError
    assert len(monitor.samples[0]) == 2


def test_it_comes_without_the_course():
    code = (
        "import sys; import profiling_lab.tools.easy_profiler;"
        "print([m for m in sys.modules if m.split('.')[0] in"
        " ('torch', 'jax', 'numpy', 'polars', 'click', 'grading')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert gpu_monitor.GPUMonitor is GPUMonitor
