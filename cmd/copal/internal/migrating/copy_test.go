package migrating

import "testing"

// TestNamesOfServers: the name of a store does not depend on the time limit, which is a minute
// unless the user gives one.
func TestNamesOfServers(t *testing.T) {
	for _, c := range [][3]string{
		{"redis://h:1", "redis://h:1", "redis://h:1?timeout=1m"},
		{"redis://u:secret@h:1/2?timeout=9s", "redis://u:***@h:1/2", "redis://u:secret@h:1/2?timeout=9s"},
		{"unix:///a/b?db=1&cache=9", "unix:///a/b?db=1", "unix:///a/b?db=1&cache=9&timeout=1m"},
		{"redis://h?%zz", "redis://h", "redis://h?%zz&timeout=1m"}, // which is refused when it is opened
	} {
		if name, err := nameOf(c[0]); name != c[1] || err != nil || patient(c[0]) != c[2] {
			t.Errorf("%s is %s, %v, and opened as %s", c[0], name, err, patient(c[0]))
		}
	}
	if dir := "a?b"; patient(dir) != dir {
		t.Errorf("a directory is opened as %s", patient(dir))
	}
}
