package sysmem

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func machine() int64 {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return math.MaxInt64
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit))
}

// group is the least limit of the control groups of the process and of those above them. In a
// container the path from the kernel may not exist; then the root, as seen from inside, is the
// container's.
func group() int64 {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return math.MaxInt64
	}
	limit := int64(math.MaxInt64)
	for line := range strings.SplitSeq(string(text), "\n") {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 {
			continue
		}
		root, name := "/sys/fs/cgroup", "memory.max"
		if parts[1] != "" { // version 1, one tree for each controller
			root, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
			if !strings.Contains(","+parts[1]+",", ",memory,") {
				continue
			}
		}
		for dir := filepath.Clean("/" + parts[2]); ; dir = filepath.Dir(dir) {
			limit = min(limit, readLimit(root+dir+"/"+name))
			if dir == "/" {
				break
			}
		}
	}
	return limit
}

func readLimit(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n <= 0 { // "max"
		return math.MaxInt64
	}
	return n
}
