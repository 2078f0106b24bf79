package sysmem

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestTotalIsPlausible(t *testing.T) {
	if n := Total(); n < 16<<20 || n > 1<<50 {
		t.Errorf("Total() = %d bytes", n)
	}
	if Total() > machine() {
		t.Errorf("Total() = %d, the machine has %d", Total(), machine())
	}
}

func TestReadLimit(t *testing.T) {
	for text, want := range map[string]int64{"1048576\n": 1 << 20, "max\n": math.MaxInt64, "": math.MaxInt64, "9223372036854771712\n": 9223372036854771712} {
		file := filepath.Join(t.TempDir(), "limit")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := readLimit(file); got != want {
			t.Errorf("%q is a limit of %d, want %d", text, got, want)
		}
	}
	if got := readLimit(filepath.Join(t.TempDir(), "missing")); got != math.MaxInt64 {
		t.Errorf("no file is a limit of %d", got)
	}
}
