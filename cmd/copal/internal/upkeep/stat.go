package upkeep

import (
	"fmt"
	"io"
	"iter"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/cmd/copal/internal/cli"
	"github.com/copaldb/copal/internal/copying"
	"github.com/copaldb/copal/internal/driver"
	"github.com/copaldb/copal/internal/opened"
)

// statJSON is copal.Stats for machines. The memory of decoded values is left out: it would be the
// memory of this command, which decodes none.
type statJSON struct {
	Keys       int64   `json:"keys"`
	Records    int64   `json:"records"`
	Ratio      float64 `json:"ratio"`
	LiveBytes  int64   `json:"liveBytes"`
	LogBytes   int64   `json:"logBytes"`
	Segments   int     `json:"segments"`
	IndexBytes int64   `json:"indexBytes"`
	TornBytes  int64   `json:"tornBytes"`

	ClockBehindSeconds float64 `json:"clockBehindSeconds,omitempty"`

	Maps []mapJSON `json:"maps"`
}

type mapJSON struct {
	Name string `json:"name"`
	Keys int    `json:"keys"`
}

// ToStatJSON returns the counts for JSON.
func ToStatJSON(s copal.Stats, maps iter.Seq2[string, int]) statJSON {
	list := []mapJSON{}
	for name, keys := range maps {
		list = append(list, mapJSON{name, keys})
	}
	return statJSON{Keys: s.Keys, Records: s.Records, Ratio: s.Ratio(), LiveBytes: s.LiveBytes,
		LogBytes: s.LogBytes, Segments: s.Segments, IndexBytes: s.IndexBytes, TornBytes: s.TornBytes, ClockBehindSeconds: s.ClockBehind.Seconds(), Maps: list}
}

// WriteStat prints the counts.
func WriteStat(out io.Writer, s copal.Stats, maps iter.Seq2[string, int]) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "keys\t%d\n", s.Keys)
	fmt.Fprintf(w, "records\t%d\n", s.Records)
	fmt.Fprintf(w, "ratio\t%.2f\n", s.Ratio())
	fmt.Fprintf(w, "live bytes\t%s\n", cli.ShowBytes(s.LiveBytes))
	fmt.Fprintf(w, "log bytes\t%s\n", cli.ShowBytes(s.LogBytes))
	fmt.Fprintf(w, "segments\t%d\n", s.Segments)
	fmt.Fprintf(w, "index bytes\t%s\n", cli.ShowBytes(s.IndexBytes))
	fmt.Fprintf(w, "torn bytes\t%s\n", cli.ShowBytes(s.TornBytes))
	if s.ClockBehind > 0 {
		fmt.Fprintf(w, "clock behind\t%v\n", s.ClockBehind.Round(time.Second))
	}
	for name, keys := range maps {
		fmt.Fprintf(w, "map %s\t%d\n", cli.ShowKey([]byte(name)), keys)
	}
	return w.Flush()
}

// Server has the counts of a server and its entries. Those that it does not give are left out.
type Server struct {
	Server      string    `json:"server"` // copal serve, redis 7.0.15
	Nodes       int       `json:"nodes,omitempty"`
	Keys        int       `json:"keys"`
	Records     *int64    `json:"records,omitempty"`
	Ratio       float64   `json:"ratio,omitempty"`
	LiveBytes   *int64    `json:"liveBytes,omitempty"`
	LogBytes    *int64    `json:"logBytes,omitempty"`
	Segments    *int64    `json:"segments,omitempty"`
	IndexBytes  *int64    `json:"indexBytes,omitempty"`
	MemoryBytes *int64    `json:"memoryBytes,omitempty"`
	FileBytes   *int64    `json:"fileBytes,omitempty"`
	Maps        []mapJSON `json:"maps,omitempty"`
}

// StatFar prints the counts of a server.
func StatFar(a *cli.App, db *copal.DB, asJSON bool, out io.Writer) error {
	far, err := copying.Look(a.Ctx, db)
	if err != nil {
		return err
	}
	defer far.Close()
	d := opened.DriverOf(db)
	s := Server{Server: "a server that tells nothing of itself"}
	if s.Keys, err = d.Len(a.Ctx, nil); err != nil {
		return err
	}
	maps, err := far.Maps(a.Ctx)
	if err != nil {
		return err
	}
	for _, name := range maps {
		n, err := d.Len(a.Ctx, copal.MapPrefix(name))
		if err != nil {
			return err
		}
		s.Maps = append(s.Maps, mapJSON{name, n})
	}
	if d, ok := d.(driver.Informing); ok {
		nodes, err := d.Info(a.Ctx)
		if err != nil { // it may be refused to the user
			a.Note(cli.Message(err))
		} else {
			s.take(nodes, far.Typed())
		}
	}
	if asJSON {
		return cli.WriteJSON(out, s)
	}
	return s.write(out)
}

// take adds up the counts of the nodes of a server.
func (s *Server) take(nodes []map[string]string, copal bool) {
	if s.Nodes = len(nodes); s.Nodes == 1 {
		s.Nodes = 0
	}
	for i, says := range nodes {
		number := func(name string) *int64 {
			n, err := strconv.ParseInt(says[name], 10, 64)
			if err != nil {
				return nil
			}
			return &n
		}
		sum := func(to **int64, n *int64) {
			switch {
			case n != nil && *to == nil && i == 0:
				*to = n
			case n != nil && *to != nil:
				**to += *n
			default:
				*to = nil // since the sum would not be complete
			}
		}
		sum(&s.MemoryBytes, number("used_memory"))
		if copal {
			s.Server = "copal serve"
			s.Records, s.LiveBytes, s.LogBytes = number("records"), number("live_bytes"), number("log_bytes")
			s.Segments, s.IndexBytes = number("segments"), number("index_bytes")
			continue
		}
		if sum(&s.FileBytes, number("aof_current_size")); i > 0 {
			continue
		}
		s.Server = "redis " + says["redis_version"]
		if version := says["valkey_version"]; version != "" {
			s.Server = "valkey " + version
		}
	}
	if s.Records != nil && s.Keys > 0 {
		s.Ratio = float64(*s.Records) / float64(s.Keys)
	}
}

func (s *Server) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	line := func(name string, n *int64, show func(int64) string) {
		if n != nil {
			fmt.Fprintf(w, "%s\t%s\n", name, show(*n))
		}
	}
	plain := func(n int64) string { return strconv.FormatInt(n, 10) }
	fmt.Fprintf(w, "server\t%s\n", s.Server)
	if s.Nodes > 0 {
		fmt.Fprintf(w, "nodes\t%d\n", s.Nodes)
	}
	fmt.Fprintf(w, "keys\t%d\n", s.Keys)
	line("records", s.Records, plain)
	if s.Ratio > 0 {
		fmt.Fprintf(w, "ratio\t%.2f\n", s.Ratio)
	}
	line("live bytes", s.LiveBytes, cli.ShowBytes)
	line("log bytes", s.LogBytes, cli.ShowBytes)
	line("segments", s.Segments, plain)
	line("index bytes", s.IndexBytes, cli.ShowBytes)
	line("memory bytes", s.MemoryBytes, cli.ShowBytes)
	line("file bytes", s.FileBytes, cli.ShowBytes)
	for _, m := range s.Maps {
		fmt.Fprintf(w, "map %s\t%d\n", cli.ShowKey([]byte(m.Name)), m.Keys)
	}
	return w.Flush()
}
