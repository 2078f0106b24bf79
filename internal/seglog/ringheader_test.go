package seglog

import (
	"bytes"
	"strings"
	"testing"
)

func TestRingHeader(t *testing.T) {
	text := (&RingHeader{0x77aa00000000beef, 0x5f3a, 4 << 20, "80f1-6921b3c0.1f"}).Encode()
	if len(text) != RingLine || text[len(text)-1] != '\n' {
		t.Errorf("the header has %d bytes", len(text))
	}
	if want := "copal ring 1 store 77aa00000000beef id 0000000000005f3a size 400000 file 80f1-6921b3c0.1f "; !strings.HasPrefix(string(text), want) {
		t.Errorf("the header begins with %q", text[:60])
	}
	if want := " 3d8a06b4\n"; !strings.HasSuffix(string(text), want) {
		t.Errorf("the header ends with %q", text[RingLine-20:])
	}
	h, err := ParseRingHeader(text)
	if h != (RingHeader{0x77aa00000000beef, 0x5f3a, 4 << 20, "80f1-6921b3c0.1f"}) || err != nil {
		t.Errorf("read back: %+v, %v", h, err)
	}
}

func FuzzRingHeader(f *testing.F) {
	f.Add((&RingHeader{1, 2, 4096, ""}).Encode())
	f.Add([]byte("copal ring 2 store 0000000000000001 id 0000000000000001 size 10 file - 00000000\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := ParseRingHeader(text)
		if err == nil && len(text) == RingLine && !bytes.Equal(text, h.Encode()) {
			t.Errorf("there are two ways to write %q", text)
		}
	})
}
