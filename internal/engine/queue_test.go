package engine

import "testing"

// TestQueueOfAKeyThatChanges: a function of the caller's that reuses the bytes of its key ends the queue all the
// same. Else each later change of the key would wait for ever.
func TestQueueOfAKeyThatChanges(t *testing.T) {
	q := queues{of: map[subject]*queue{}}
	key := []byte("key")
	tries := 0
	err := q.attempt(subject{key: view(key)}, func(*turn) error {
		if tries++; tries == 1 {
			return errConflict
		}
		copy(key, "new")
		return nil
	})
	if err != nil || tries != 2 || len(q.of) != 0 || q.n.Load() != 0 {
		t.Errorf("after %d tries, %v: %d queues are left", tries, err, len(q.of))
	}
}
