package open

import (
	"io"
	"os"
	"testing"

	"github.com/copaldb/copal"
)

// holdEnv makes of the test binary a process that opens the store in the directory
// it names, says so, and holds it until it is killed.
const holdEnv = "COPAL_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		holdStore(dir)
	}
	os.Exit(m.Run())
}

func holdStore(dir string) {
	db, err := copal.Open(dir)
	if err == nil {
		err = db.Raw().Set([]byte("holder"), []byte("was here"))
	}
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("holding\n")
	io.Copy(io.Discard, os.Stdin) // until the parent kills this process, or dies
	os.Exit(2)
}
