package main

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// groupVariable names the directory of the control group that a phase must join.
const groupVariable = "COPAL_YEARS_GROUP"

// The two versions of control groups, and the files that matter in each.
var groupVersions = []struct{ root, limit, most string }{
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"},
	{"/sys/fs/cgroup", "memory.max", "memory.peak"},
}

// makeGroup makes a control group whose processes have so much memory, file cache included.
func makeGroup(bytes int64) (dir string, leave func(), err error) {
	for _, v := range groupVersions {
		if _, err = os.Stat(filepath.Join(v.root, "cgroup.procs")); err != nil {
			continue
		}
		dir = filepath.Join(v.root, "copal-years-"+strconv.Itoa(os.Getpid()))
		if err = os.Mkdir(dir, 0o755); err != nil {
			return "", nil, err
		}
		leave = func() { os.Remove(dir) }
		if err = os.WriteFile(filepath.Join(dir, v.limit), []byte(strconv.FormatInt(bytes, 10)), 0o644); err != nil {
			leave()
			return "", nil, err
		}
		return dir, leave, nil
	}
	return "", nil, err
}

func joinGroup() error {
	dir := os.Getenv(groupVariable)
	if dir == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644)
}

// groupMost returns the peak memory of the control group, and whether there is a group. The peak
// starts over with each phase.
func groupMost() (int64, bool) {
	dir := os.Getenv(groupVariable)
	if dir == "" {
		return 0, false
	}
	return firstNumber(filepath.Join(dir, groupVersions[0].most), filepath.Join(dir, groupVersions[1].most))
}

// anonymousBytes reads RssAnon.
func anonymousBytes() int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "RssAnon:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}

func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && !info.IsDir() {
		return st.Blocks * 512
	}
	return 0
}
