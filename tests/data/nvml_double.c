/* A double of NVML with four devices, for programs/gpus.py. Its declarations are those of nvml.h.
   NVML_DOUBLE lists what is wrong: slow:N hot:N brake:N capped:N lost:N goes:N reset:N hangs:N denied:N ecc:N rows:N
   pending:N action:N pcie:N lanes:N mig:N idle:N busy:N own:N mute:N xid:N links:N limit:N set:N, for device N; driver:V,
   fails:CODE. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include "nvml.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct nvmlDevice_st {
    unsigned number;
};
static struct nvmlDevice_st devices[4] = {{0}, {1}, {2}, {3}};
static double started;

/* What gpus.py must know of nvml.h: sizes, offsets and ids, in the order of the test. */
const unsigned nvml_layout[] = {
    sizeof(nvmlPciInfo_t), offsetof(nvmlPciInfo_t, busId), sizeof(nvmlFieldValue_t), offsetof(nvmlFieldValue_t, valueType),
    offsetof(nvmlFieldValue_t, nvmlReturn), offsetof(nvmlFieldValue_t, value), sizeof(nvmlProcessInfo_t),
    sizeof(nvmlMemory_t), offsetof(nvmlMemory_t, total), sizeof(nvmlUtilization_t), offsetof(nvmlUtilization_t, gpu),
    NVML_SUCCESS, NVML_ERROR_NO_PERMISSION, NVML_ERROR_FUNCTION_NOT_FOUND, NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED,
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, NVML_TEMPERATURE_GPU,
    NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP, NVML_FI_DEV_PERF_POLICY_THERMAL, NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION,
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, NVML_VALUE_TYPE_UNSIGNED_INT, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
    NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
    NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
    sizeof(nvmlEventData_t), offsetof(nvmlEventData_t, eventType), offsetof(nvmlEventData_t, eventData),
    nvmlEventTypeXidCriticalError, nvmlClocksEventReasonApplicationsClocksSetting, NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON,
    NVML_FI_DEV_NVLINK_LINK_COUNT, NVML_FI_DEV_NVLINK_GET_SPEED, NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY,
    NVML_FI_DEV_NVLINK_ERROR_DL_CRC, offsetof(nvmlFieldValue_t, scopeId)};

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static const char *said(const char *word)
{
    static char found[80];
    const char *all = getenv("NVML_DOUBLE");
    for (size_t length = strlen(word); all && *all; all += strcspn(all, " "), all += *all == ' ')
        if (!strncmp(all, word, length) && all[length] == ':') {
            snprintf(found, sizeof found, "%.*s", (int)strcspn(all + length + 1, " "), all + length + 1);
            return found;
        }
    return NULL;
}

static int is(const char *word, nvmlDevice_t device)
{
    const char *number = said(word);
    return number && (unsigned)atoi(number) == device->number;
}

/* What a device answers at all. */
static nvmlReturn_t state(nvmlDevice_t device)
{
    if (is("hangs", device))
        sleep(60);
    if (is("goes", device) && now() - started > 1)
        return NVML_ERROR_GPU_IS_LOST;
    return is("reset", device) ? NVML_ERROR_RESET_REQUIRED : NVML_SUCCESS;
}

static nvmlReturn_t tell(nvmlDevice_t device, unsigned value, unsigned *at)
{
    nvmlReturn_t code = is("mute", device) ? NVML_ERROR_NOT_SUPPORTED : state(device);
    if (code == NVML_SUCCESS)
        *at = value;
    return code;
}

nvmlReturn_t nvmlInit_v2(void)
{
    started = now();
    return said("fails") ? (nvmlReturn_t)atoi(said("fails")) : NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t code)
{
    return code == NVML_ERROR_GPU_IS_LOST ? "GPU is lost" : code == NVML_ERROR_RESET_REQUIRED ? "GPU requires reset" :
           code == NVML_ERROR_LIB_RM_VERSION_MISMATCH ? "Driver/library version mismatch" : "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    const char *other = said("driver");
    snprintf(version, length, "%s", other ? other :
             NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN == 269 ? "580.95.05" : "575.57.08");
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 4;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    if (is("lost", &devices[index]))
        return NVML_ERROR_GPU_IS_LOST;
    *device = &devices[index];
    return is("denied", *device) ? NVML_ERROR_NO_PERMISSION : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    snprintf(uuid, length, "GPU-%08x-0000-4000-8000-000000000000", 0xd0b1e000 + device->number);
    return state(device);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    static const unsigned bus[] = {0x1b, 0x43, 0x9b, 0xc3};
    memset(pci, 0, sizeof *pci);
    pci->bus = bus[device->number];
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT, 0, pci->bus, 0);
    snprintf(pci->busId, sizeof pci->busId, NVML_DEVICE_PCI_BUS_ID_FMT, 0, pci->bus, 0);
    return state(device);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
    snprintf(name, length, "double of an A100");
    return state(device);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    *major = 8, *minor = 0;
    return state(device);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    *memory = (nvmlMemory_t){.total = 42949672960, .free = 42000000000, .used = 949672960};
    return state(device);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    *pending = 0;
    return tell(device, is("mig", device), current);
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned *cores)
{
    return tell(device, 6912, cores);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *clock)
{
    return tell(device, type == NVML_CLOCK_MEM ? 1215 : type == NVML_CLOCK_SM ? 1410 : 0, clock);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *clock)
{
    unsigned sm = is("idle", device) ? 210 : is("slow", device) ? 705 : 1395 + device->number;
    return tell(device, type == NVML_CLOCK_SM ? sm : 0, clock);
}

nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned *bits)
{
    return tell(device, 5120, bits);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *generation)
{
    return tell(device, 4, generation);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned *width)
{
    return tell(device, 16, width);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *generation)
{
    return tell(device, is("idle", device) ? 1 : is("pcie", device) ? 3 : 4, generation);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *width)
{
    return tell(device, is("lanes", device) ? 8 : 16, width);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *used)
{
    used->gpu = is("idle", device) ? 0 : 99;
    used->memory = 60;
    return is("mute", device) ? NVML_ERROR_NOT_SUPPORTED : state(device);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned *celsius)
{
    return sensor == NVML_TEMPERATURE_GPU ? tell(device, 61 + device->number, celsius) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts)
{
    return tell(device, 250500, milliwatts);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                         unsigned long long *errors)
{
    unsigned count = 0;
    nvmlReturn_t code = tell(device, is("ecc", device) && now() - started > 1 ? 5 : 2, &count);
    if (type != NVML_MEMORY_ERROR_TYPE_UNCORRECTED || counter != NVML_VOLATILE_ECC)
        return NVML_ERROR_INVALID_ARGUMENT;
    *errors = count;
    return code;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                       unsigned *failed)
{
    *corrected = *uncorrected = 1;
    *pending = is("pending", device);
    return tell(device, is("rows", device), failed);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes)
{
    if (is("busy", device)) {
        processes[0] = (nvmlProcessInfo_t){.pid = 4712};
        processes[1] = (nvmlProcessInfo_t){.pid = 4711};
    }
    if (is("own", device) && now() - started > 1) {
        processes[0] = (nvmlProcessInfo_t){.pid = (unsigned)getpid()};
        return tell(device, 1, count);
    }
    return tell(device, is("busy", device) ? 2 : 0, count);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *milliwatts)
{
    return tell(device, is("limit", device) ? 300000 : 400000, milliwatts);
}

nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned *milliwatts)
{
    return tell(device, 400000, milliwatts);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    *reasons = is("set", device) ? nvmlClocksEventReasonApplicationsClocksSetting : nvmlClocksEventReasonSwPowerCap;
    return is("mute", device) ? NVML_ERROR_NOT_SUPPORTED : state(device);
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    *set = (nvmlEventSet_t)devices;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    return is("mute", device) || types != nvmlEventTypeXidCriticalError || set != (nvmlEventSet_t)devices
               ? NVML_ERROR_NOT_SUPPORTED : state(device);
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned milliseconds)
{
    static int sent;
    if (!said("xid") || sent++ || milliseconds || set != (nvmlEventSet_t)devices)
        return NVML_ERROR_TIMEOUT;
    *data = (nvmlEventData_t){.device = &devices[atoi(said("xid"))], .eventType = nvmlEventTypeXidCriticalError, .eventData = 79};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    nvmlReturn_t code = is("mute", device) ? NVML_ERROR_NOT_SUPPORTED : state(device);
    unsigned long long ns = (unsigned long long)((now() - started) * 1e9);
    for (nvmlFieldValue_t *each = values; code == NVML_SUCCESS && each < values + count; each++) {
        memset(&each->value, 0xff, sizeof each->value);
        each->nvmlReturn = NVML_SUCCESS;
        each->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        switch (each->fieldId) {
        case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION: each->value.ullVal = 1000000 + ns / 1000000 * 250; break;
        case NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP: each->value.ullVal = is("capped", device) ? ns / 2 : 7; break;
        case NVML_FI_DEV_PERF_POLICY_THERMAL:
        case NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN: each->value.ullVal = is("hot", device) ? ns / 5 : 0; break;
        case NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN: each->value.ullVal = is("slow", device) ? ns / 4 : 0; break;
        case NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN: each->value.ullVal = is("brake", device) ? ns / 3 : 0; break;
        case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
            each->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
            each->value.uiVal = is("action", device) ? NVML_GPU_RECOVERY_ACTION_GPU_RESET : NVML_GPU_RECOVERY_ACTION_NONE;
            break;
        case NVML_FI_DEV_NVLINK_LINK_COUNT: /* the links of a newer device tell their errors one by one */
            each->value.ullVal = is("links", device) ? 18 : 12;
            break;
        case NVML_FI_DEV_NVLINK_GET_SPEED: each->value.ullVal = 26562; break;
        case NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL: each->value.ullVal = 2; break;
        case NVML_FI_DEV_NVLINK_ERROR_DL_CRC:
            each->value.ullVal = is("links", device) && each->scopeId == 17 && now() - started > 1 ? 5 : 0;
            break;
        default: each->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        }
    }
    return code;
}
