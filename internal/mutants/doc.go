// Package mutants holds bugs, each a patch of the code beside it, and shows that the tests of this module catch them.
//
// A patch begins with a header, and all that git needs follows:
//
//	breaks: a search for a cell compares the first 32 bytes of keys alone
//	caught by: ./internal/cache TestTableAgainstMap
//	limit: 5m
//
// The second line names a package and tests of it. They run as `go test ./...` runs them; one of them must fail
// within the limit, which is 10m where there is no such line. There are several second lines where each of
// several packages must notice, as of a bug beneath both logs. A patch that does not compile proves nothing,
// and neither does a test that fails without it.
//
//	COPAL_MUTANTS=1 go test -v -timeout 2h ./internal/mutants                       # all, with a table at the end
//	COPAL_MUTANTS=3 go test -v -timeout 2h -run /cell ./internal/mutants            # three times each, those with cell in their names
//
// Without the variable, the package's test sees to it that each patch still applies, and that the tests which
// it names are there.
package mutants
