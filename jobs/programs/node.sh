#!/bin/sh
# Print facts of the node that runs a job, one a line: they may have changed since a better night.
said() { [ -z "$2" ] || printf '%s: %s\n' "$1" "$2"; }
first() { head -n 1 "$1" 2>/dev/null; }
of_cpu() { sed -n "s/^$1[[:space:]]*: *//p" /proc/cpuinfo | head -n 1; }

# User-mode Linux names itself as the processor. Ask tools for other hypervisors, as the firmware's name of a machine
# does not tell KVM from an emulation
hypervisor=$(LC_ALL=C lscpu 2>/dev/null | sed -n 's/^Hypervisor vendor: *//p' | tr '[:upper:]' '[:lower:]')
if [ "$(of_cpu vendor_id)" = 'User Mode Linux' ]; then
    virtualisation=uml
elif command -v systemd-detect-virt >/dev/null; then
    virtualisation=$(systemd-detect-virt --vm)
elif [ -n "$hypervisor" ]; then
    virtualisation=$hypervisor
elif grep -qw '^flags.*hypervisor' /proc/cpuinfo; then
    virtualisation=$(first /sys/class/dmi/id/product_name)
    virtualisation=${virtualisation:-unknown hypervisor}
else
    virtualisation=none
fi
said node "$(uname -n)"
said nodes "$SLURM_JOB_NODELIST"
said kernel "$(uname -r)"
said virtualisation "$virtualisation"
said processor "$(of_cpu 'model name')"
said memory "$(awk '/^MemTotal:/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)"
said microcode "$(of_cpu microcode)"
said firmware "$(first /sys/class/dmi/id/bios_version)"
said governor "$(first /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor)"
said clocksource "$(first /sys/devices/system/clocksource/clocksource0/current_clocksource)"
said cores_online "$(first /sys/devices/system/cpu/online)"
said numa_memory "$(awk '/MemTotal:/ { printf "%s%.0f", parts++ ? "+" : "", $4 / 1048576 } END { if (parts) print " GiB" }' \
    /sys/devices/system/node/node*/meminfo 2>/dev/null)"
said huge_pages "$(first /proc/sys/vm/nr_hugepages)"
said transparent_huge_pages "$(sed -n 's/.*\[\(.*\)\].*/\1/p' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null)"
said numa_balancing "$(first /proc/sys/kernel/numa_balancing)"
said gpu_driver "$(first /sys/module/nvidia/version)"
said vulnerable "$(cd /sys/devices/system/cpu/vulnerabilities 2>/dev/null && grep -l '^Vulnerable' -- * | tr '\n' ' ')"
