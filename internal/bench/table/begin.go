package table

import "context"

// Begin is how another command begins to measure. It waits until no other run goes on, and says what figures of stores
// in dir are taken on. The caller ends the run by unlock. It calls note with what a person should know at once.
func Begin(ctx context.Context, dir string, modules []string, note func(text string)) (m Machine, unlock func() error, err error) {
	unlock, err = lock(ctx, note)
	if err != nil {
		return m, nil, err
	}
	m = describeMachine(dir, modules)
	for _, w := range warnings(m.FileSystem) {
		note(w)
	}
	return m, unlock, nil
}
