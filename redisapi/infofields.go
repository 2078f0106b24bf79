package redisapi

import (
	"strings"

	"github.com/copaldb/copal/redisapi/internal/command"
)

// constants are fields of INFO in Redis 7.2 that always have the same value here, by section.
// Dashboards and libraries read them.
var constants = map[string]string{
	"server": `redis_git_sha1 00000000
redis_git_dirty 0
redis_build_id copal
monotonic_clock Go
multiplexing_api Go
atomicvar_api Go
gcc_version 0.0.0
process_supervised no
hz 10
configured_hz 10
config_file
io_threads_active 0`,
	"clients": `cluster_connections 0
client_recent_max_input_buffer 0
client_recent_max_output_buffer 0
clients_in_timeout_table 0`,
	"memory": `used_memory_startup 0
used_memory_lua 0
used_memory_vm_eval 0
used_memory_lua_human 0B
used_memory_scripts_eval 0
number_of_cached_scripts 0
number_of_functions 0
number_of_libraries 0
used_memory_vm_functions 0
used_memory_vm_total 0
used_memory_vm_total_human 0B
used_memory_functions 0
used_memory_scripts 0
used_memory_scripts_human 0B
maxmemory 0
maxmemory_human 0B
maxmemory_policy noeviction
allocator_frag_ratio 1.00
allocator_frag_bytes 0
allocator_rss_ratio 1.00
allocator_rss_bytes 0
rss_overhead_ratio 1.00
rss_overhead_bytes 0
mem_fragmentation_ratio 1.00
mem_fragmentation_bytes 0
mem_not_counted_for_evict 0
mem_replication_backlog 0
mem_total_replication_buffers 0
mem_clients_slaves 0
mem_cluster_links 0
mem_aof_buffer 0
mem_allocator go
active_defrag_running 0
lazyfree_pending_objects 0
lazyfreed_objects 0`,
	"persistence": `loading 0
async_loading 0
current_cow_peak 0
current_cow_size 0
current_cow_size_age 0
current_fork_perc 0.00
current_save_keys_processed 0
current_save_keys_total 0
rdb_bgsave_in_progress 0
rdb_last_bgsave_status ok
rdb_last_bgsave_time_sec 0
rdb_current_bgsave_time_sec -1
rdb_last_cow_size 0
rdb_last_load_keys_expired 0
rdb_last_load_keys_loaded 0
aof_enabled 1
aof_rewrite_scheduled 0
aof_last_rewrite_time_sec -1
aof_current_rewrite_time_sec -1
aof_last_bgrewrite_status ok
aof_rewrites_consecutive_failures 0
aof_last_cow_size 0
module_fork_in_progress 0
module_fork_last_cow_size 0
aof_pending_rewrite 0
aof_buffer_length 0
aof_pending_bio_fsync 0
aof_delayed_fsync 0`,
	"stats": `total_net_repl_input_bytes 0
total_net_repl_output_bytes 0
instantaneous_input_repl_kbps 0.00
instantaneous_output_repl_kbps 0.00
sync_full 0
sync_partial_ok 0
sync_partial_err 0
expired_stale_perc 0.00
expired_time_cap_reached_count 0
expire_cycle_cpu_milliseconds 0
evicted_keys 0
evicted_clients 0
total_eviction_exceeded_time 0
current_eviction_exceeded_time 0
latest_fork_usec 0
total_forks 0
migrate_cached_sockets 0
slave_expires_tracked_keys 0
active_defrag_hits 0
active_defrag_misses 0
active_defrag_key_hits 0
active_defrag_key_misses 0
total_active_defrag_time 0
current_active_defrag_time 0
unexpected_error_replies 0
dump_payload_sanitizations 0
io_threaded_reads_processed 0
io_threaded_writes_processed 0
reply_buffer_shrinks 0
reply_buffer_expands 0
acl_access_denied_key 0
acl_access_denied_channel 0`,
	"replication": `role master
connected_slaves 0
master_failover_state no-failover
master_replid2 0000000000000000000000000000000000000000
master_repl_offset 0
second_repl_offset -1
repl_backlog_active 0
repl_backlog_size 1048576
repl_backlog_first_byte_offset 0
repl_backlog_histlen 0`,
	"cpu": `used_cpu_sys_children 0.000000
used_cpu_user_children 0.000000`,
}

// writeConstants writes the constants of a section.
func writeConstants(section string, line func(name string, value any)) {
	for each := range strings.Lines(constants[section]) {
		name, value, _ := strings.Cut(strings.TrimSuffix(each, "\n"), " ")
		line(name, value)
	}
}

// writes returns the number of writing commands that were carried out.
func (s *Server) writes() (n int64) {
	for _, cmd := range table.Numbered {
		if cmd.Flags&command.Write != 0 {
			n += s.figures[cmd.Number].calls.Load()
		}
	}
	return n
}

// unsaved returns the number of writing commands since the last SAVE, or since the figures were set
// to 0.
func (s *Server) unsaved() int64 { return max(s.writes()-s.savedWrites.Load(), 0) }
