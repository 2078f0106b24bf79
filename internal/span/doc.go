// Package span is ranges of sort keys, with a direction, and the cursors that go through them.
package span
