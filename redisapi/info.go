package redisapi

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/internal/sysmem"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/keys"
)

// section is a part of the reply to INFO. An unusual section is shown if it is named, or if all are
// asked for.
type section struct {
	name    string
	unusual bool
	write   func(c *client, line func(name string, value any))
}

var sections = []section{
	{"server", false, (*client).infoServer},
	{"clients", false, (*client).infoClients},
	{"memory", false, (*client).infoMemory},
	{"persistence", false, (*client).infoPersistence},
	{"stats", false, (*client).infoStats},
	{"replication", false, (*client).infoReplication},
	{"cpu", false, (*client).infoCPU},
	{"modules", false, func(*client, func(string, any)) {}},
	{"commandstats", true, (*client).infoCommandstats},
	{"errorstats", false, (*client).infoErrorstats},
	{"cluster", false, func(c *client, line func(string, any)) {
		line("cluster_enabled", flag(c.s.shared.ClusterAddress != ""))
	}},
	{"keyspace", false, (*client).infoKeyspace},
	{"copal", false, (*client).infoCopal},
}

func (c *client) info() error {
	wanted := func(s *section) bool { return !s.unusual }
	if len(c.Args) > 1 {
		wanted = func(s *section) bool {
			return slices.ContainsFunc(c.Args[1:], func(arg []byte) bool {
				switch name := string(command.Lower(nil, arg)); name {
				case "all", "everything":
					return true
				case "default":
					return !s.unusual
				default:
					return name == s.name
				}
			})
		}
	}
	var b strings.Builder
	for i := range sections {
		s := &sections[i]
		if !wanted(s) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + strings.ToUpper(s.name[:1]) + s.name[1:] + "\r\n")
		line := func(name string, value any) { fmt.Fprintf(&b, "%s:%v\r\n", name, value) }
		s.write(c, line)
		writeConstants(s.name, line)
	}
	c.Verbatim(b.String())
	return nil
}

func (c *client) infoServer(line func(string, any)) {
	up := time.Since(c.s.shared.Started)
	port := 0
	if a, ok := c.nc.LocalAddr().(*net.TCPAddr); ok {
		port = a.Port
	}
	line("redis_version", version)
	line("redis_mode", c.s.mode())
	line("os", runtime.GOOS+" "+runtime.GOARCH)
	line("arch_bits", 32<<(^uint(0)>>63))
	line("go_version", runtime.Version())
	line("process_id", os.Getpid())
	line("run_id", c.Shared.ID)
	line("tcp_port", port)
	line("server_time_usec", time.Now().UnixMicro())
	line("uptime_in_seconds", int(up.Seconds()))
	line("uptime_in_days", int(up.Hours()/24))
	line("lru_clock", time.Now().Unix()&(1<<24-1))
	executable, _ := os.Executable()
	line("executable", executable)
	line("listener0", fmt.Sprintf("name=%s,addr=%s", c.nc.LocalAddr().Network(), c.nc.LocalAddr()))
}

func (c *client) infoClients(line func(string, any)) {
	c.s.mu.Lock()
	n := len(c.s.clients)
	c.s.mu.Unlock()
	c.s.tracking.mu.Lock()
	tracks := len(c.s.tracking.by)
	c.s.tracking.mu.Unlock()
	line("connected_clients", n)
	line("maxclients", c.s.MaxClients)
	line("blocked_clients", c.s.waiting.count.Load())
	line("tracking_clients", tracks)
}

func (c *client) infoMemory(line func(string, any)) {
	used := keys.ProcessMemory()
	st := c.s.DB.Stats()
	line("used_memory", used)
	line("used_memory_human", human(used))
	line("used_memory_rss", used)
	line("used_memory_rss_human", human(used))
	peak := c.s.peak.Load()
	for peak < used && !c.s.peak.CompareAndSwap(peak, used) {
		peak = c.s.peak.Load()
	}
	peak = max(peak, used)
	data := uint64(max(st.CacheBytes+st.IndexBytes+st.SnapshotBytes, 0))
	line("used_memory_peak", peak)
	line("used_memory_peak_human", human(peak))
	line("used_memory_peak_perc", fmt.Sprintf("%.2f%%", float64(used)/float64(max(peak, 1))*100))
	line("used_memory_overhead", used-min(data, used))
	line("used_memory_dataset", data)
	line("used_memory_dataset_perc", fmt.Sprintf("%.2f%%", min(float64(data)/float64(max(used, 1)), 1)*100))
	for _, name := range []string{"allocator_allocated", "allocator_active", "allocator_resident"} {
		line(name, used)
	}
	total := uint64(sysmem.Total())
	line("total_system_memory", total)
	line("total_system_memory_human", human(total))
	line("mem_clients_normal", c.s.memory.Used())
}

// human formats a number of bytes as Redis does.
func human(n uint64) string {
	switch f := float64(n); {
	case n < 1<<10:
		return fmt.Sprintf("%dB", n)
	case n < 1<<20:
		return fmt.Sprintf("%.2fK", f/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.2fM", f/(1<<20))
	default:
		return fmt.Sprintf("%.2fG", f/(1<<30))
	}
}

func (c *client) infoPersistence(line func(string, any)) {
	st := c.s.DB.Stats()
	line("rdb_changes_since_last_save", c.s.unsaved())
	line("rdb_saves", c.s.saves.Load())
	line("rdb_last_save_time", c.s.saved())
	line("aof_rewrites", st.Compacted)
	line("aof_rewrite_in_progress", flag(c.s.compacting.Load()))
	line("aof_last_write_status", c.s.writeStatus())
	line("aof_current_size", st.LogBytes)
	line("aof_base_size", st.LiveBytes)
}

// writeStatus returns "err" once the store refuses writes, and otherwise "ok", also for a store
// that is open only for reading.
func (s *Server) writeStatus() string {
	if err := s.DB.Update(func(*copal.Tx) error { return nil }); err != nil && err != copal.ErrReadOnly {
		return "err"
	}
	return "ok"
}

func flag(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (c *client) infoStats(line func(string, any)) {
	n := &c.s.counts
	a := &c.s.audience
	a.mu.Lock()
	heard := [kindsOfChannels]int{len(a.of[channels]), len(a.of[patterns]), len(a.of[shardChannels])}
	a.mu.Unlock()
	c.s.tracking.mu.Lock()
	keys, items, prefixes := len(c.s.tracking.keys), 0, 0
	for _, list := range c.s.tracking.keys {
		items += len(list)
	}
	for _, each := range c.s.tracking.by {
		prefixes += len(each.trackOptions.prefixes)
	}
	c.s.tracking.mu.Unlock()
	line("total_connections_received", n.connections.Load())
	line("total_commands_processed", n.commands.Load())
	ops, in, out := c.s.rates.sample(c.s.shared.Started, n)
	line("instantaneous_ops_per_sec", int64(ops+0.5))
	line("instantaneous_input_kbps", fmt.Sprintf("%.2f", in))
	line("instantaneous_output_kbps", fmt.Sprintf("%.2f", out))
	line("total_reads_processed", n.reads.Load())
	line("total_writes_processed", n.writes.Load())
	line("expired_keys", n.expired.Load())
	line("total_net_input_bytes", n.in.Load())
	line("total_net_output_bytes", n.out.Load())
	line("rejected_connections", n.rejected.Load())
	line("keyspace_hits", c.s.shared.Hits.Load())
	line("keyspace_misses", c.s.shared.Misses.Load())
	line("pubsub_channels", heard[channels])
	line("pubsub_patterns", heard[patterns])
	line("pubsubshard_channels", heard[shardChannels])
	line("tracking_total_keys", keys)
	line("tracking_total_items", items)
	line("tracking_total_prefixes", prefixes)
	refused := c.s.errorCounts.all()
	line("acl_access_denied_auth", refused["WRONGPASS"])
	line("acl_access_denied_cmd", refused["NOPERM"])
	line("total_error_replies", n.errors.Load())
}

func (c *client) infoReplication(line func(string, any)) {
	line("master_replid", c.Shared.ID)
}

func (c *client) infoCPU(line func(string, any)) {
	user, system := processorTime()
	line("used_cpu_sys", fmt.Sprintf("%.6f", system.Seconds()))
	line("used_cpu_user", fmt.Sprintf("%.6f", user.Seconds()))
	line("used_cpu_sys_main_thread", fmt.Sprintf("%.6f", system.Seconds()))
	line("used_cpu_user_main_thread", fmt.Sprintf("%.6f", user.Seconds()))
}

func (c *client) infoCommandstats(line func(string, any)) {
	for _, cmd := range table.Numbered {
		f := &c.s.figures[cmd.Number]
		calls, nanos := f.calls.Load(), int64(f.took.Sum())
		if calls == 0 && f.rejected.Load() == 0 {
			continue
		}
		line("cmdstat_"+cmd.FullName(), fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
			calls, nanos/1000, float64(nanos)/1000/float64(max(calls, 1)), f.rejected.Load(), f.failed.Load()))
	}
}

func (c *client) infoErrorstats(line func(string, any)) {
	by := c.s.errorCounts.all()
	for _, code := range slices.Sorted(maps.Keys(by)) {
		line("errorstat_"+code, fmt.Sprintf("count=%d", by[code]))
	}
}

func (c *client) infoKeyspace(line func(string, any)) {
	sizes, err := c.Sizes()
	if err != nil {
		return // of a store that is closed
	}
	for n, keys := range sizes {
		if keys > 0 {
			line(fmt.Sprint("db", n), fmt.Sprintf("keys=%d,expires=0,avg_ttl=0", keys))
		}
	}
}

func (c *client) infoCopal(line func(string, any)) {
	st := c.s.DB.Stats()
	line("store", admin.Identity(c.s.DB))
	line("keys", st.Keys)
	line("records", st.Records)
	line("live_bytes", st.LiveBytes)
	line("log_bytes", st.LogBytes)
	line("segments", st.Segments)
	line("cache_bytes", st.CacheBytes)
	line("index_bytes", st.IndexBytes)
	line("snapshots", st.Snapshots)
	line("snapshot_bytes", st.SnapshotBytes)
	line("held_bytes", st.HeldBytes)
	line("compacted", st.Compacted)
	line("sync_interval_ms", st.SyncInterval.Milliseconds())
	line("durability", cmp.Or(c.s.Durability, copal.Write))
}

// mode returns the kind of the server, as HELLO and INFO name it.
func (s *Server) mode() string {
	if s.shared.ClusterAddress != "" {
		return "cluster"
	}
	return "standalone"
}
