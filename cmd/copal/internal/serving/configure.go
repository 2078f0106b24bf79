package serving

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/pflag"

	"github.com/copaldb/copal/cmd/copal/internal/cli"
)

// configure sets the flags that the command line has not set: from the environment or, where that
// has nothing, from a TOML file. The file may be named by the environment, too.
func configure(flags *pflag.FlagSet, file string, env func(string) (string, bool)) error {
	set := func(f *pflag.Flag, text, where string) error {
		if err := f.Value.Set(text); err != nil {
			return cli.UsageError(fmt.Sprintf("%s: %q: %v", where, text, err))
		}
		f.Changed = true
		return nil
	}
	var failed error
	flags.VisitAll(func(f *pflag.Flag) {
		name := variable(f.Name)
		if text, ok := env(name); ok && !f.Changed && f.Name != "help" && failed == nil {
			failed = set(f, text, name)
		}
	})
	if failed != nil {
		return failed
	}
	if file == "" {
		file = flags.Lookup("config").Value.String()
	}
	if file == "" {
		return nil
	}
	lines := map[string]any{}
	if _, err := toml.DecodeFile(file, &lines); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for name, value := range lines {
		f := flags.Lookup(name)
		if f == nil || name == "config" || name == "help" {
			return fmt.Errorf("%s: there is no setting %q", file, name)
		}
		text, err := settingText(value)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", file, name, err)
		}
		if f.Changed {
			continue
		}
		if err := set(f, text, file+": "+name); err != nil {
			return err
		}
	}
	return nil
}

// variable returns the name of the environment variable of a flag.
func variable(flag string) string {
	return "COPAL_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func settingText(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	return "", fmt.Errorf("a value is a string, a whole number, true or false")
}

// size is a number of bytes on the command line.
type size int64

func (s *size) String() string { return strconv.FormatInt(int64(*s), 10) }
func (s *size) Type() string   { return "size" }

var sizeUnits = []struct {
	name string
	of   float64
}{{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40}, {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"b", 1}}

// Set takes a number with or without a unit.
func (s *size) Set(text string) error {
	number, unit := strings.ToLower(strings.TrimSpace(text)), 1.0
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.of
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || n < 0 || n*unit >= math.MaxInt64 || n != n {
		return cli.UsageError("a size is a number of bytes, or one with a unit, such as 512MiB")
	}
	*s = size(n * unit)
	return nil
}
