package table

import "context"

// Begin begins a measurement of another command. It waits until no other run goes on, and returns
// the machine, for stores in dir. The caller ends the run with unlock. Begin calls note with
// messages for the user.
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
