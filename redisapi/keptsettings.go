package redisapi

import (
	"sync"
)

// keptDefaults are settings of Redis without an effect here, with their defaults in Redis 7.2.
// Programs and operators set them. Each keeps its last value, and does nothing else.
//
// Settings that promise something are not among them: if maxmemory, appendfsync or requirepass has
// no effect, there must be an error.
const keptDefaults = `
acllog-max-len 128
active-defrag-cycle-max 25
active-defrag-cycle-min 1
active-defrag-ignore-bytes 104857600
active-defrag-max-scan-fields 1000
active-defrag-threshold-lower 10
active-defrag-threshold-upper 100
active-expire-effort 1
activedefrag no
activerehashing yes
aof-load-truncated yes
aof-rewrite-incremental-fsync yes
aof-timestamp-enabled no
aof-use-rdb-preamble yes
auto-aof-rewrite-min-size 67108864
auto-aof-rewrite-percentage 100
busy-reply-threshold 5000
cluster-allow-pubsubshard-when-down yes
cluster-allow-reads-when-down no
cluster-allow-replica-migration yes
cluster-link-sendbuf-limit 0
cluster-migration-barrier 1
cluster-node-timeout 15000
cluster-replica-no-failover no
cluster-replica-validity-factor 10
cluster-require-full-coverage yes
cluster-slave-no-failover no
cluster-slave-validity-factor 10
crash-log-enabled yes
crash-memcheck-enabled yes
dynamic-hz yes
hash-max-listpack-entries 512
hash-max-listpack-value 64
hash-max-ziplist-entries 512
hash-max-ziplist-value 64
hll-sparse-max-bytes 3000
hz 10
jemalloc-bg-thread yes
latency-monitor-threshold 0
latency-tracking yes
latency-tracking-info-percentiles 50 99 99.9
lazyfree-lazy-eviction no
lazyfree-lazy-expire no
lazyfree-lazy-server-del no
lazyfree-lazy-user-del yes
lazyfree-lazy-user-flush no
lfu-decay-time 1
lfu-log-factor 10
list-compress-depth 0
list-max-listpack-size -2
list-max-ziplist-size -2
locale-collate
loglevel notice
lua-time-limit 5000
maxmemory-eviction-tenacity 10
maxmemory-policy noeviction
maxmemory-samples 5
no-appendfsync-on-rewrite no
oom-score-adj no
oom-score-adj-values 0 200 800
proc-title-template {title} {listen-addr} {server-mode}
propagation-error-behavior ignore
rdb-del-sync-files no
rdb-save-incremental-fsync yes
rdbcompression yes
repl-backlog-size 1048576
repl-backlog-ttl 3600
repl-disable-tcp-nodelay no
repl-diskless-load disabled
repl-diskless-sync yes
repl-diskless-sync-delay 5
repl-diskless-sync-max-replicas 0
repl-ping-replica-period 10
repl-ping-slave-period 10
repl-timeout 60
replica-ignore-disk-write-errors no
replica-ignore-maxmemory yes
replica-lazy-flush no
replica-priority 100
replica-read-only yes
replica-serve-stale-data yes
sanitize-dump-payload no
save
set-max-intset-entries 512
set-max-listpack-entries 128
set-max-listpack-value 64
shutdown-on-sigint default
shutdown-on-sigterm default
shutdown-timeout 10
slave-ignore-maxmemory yes
slave-lazy-flush no
slave-priority 100
slave-read-only yes
slave-serve-stale-data yes
stop-writes-on-bgsave-error yes
stream-node-max-bytes 4096
stream-node-max-entries 100
zset-max-listpack-entries 128
zset-max-listpack-value 64
zset-max-ziplist-entries 128
zset-max-ziplist-value 64
`

// keptSettings are the values of a server that are not the defaults.
type keptSettings struct {
	mu sync.Mutex
	by map[string]string
}

func (k *keptSettings) value(name, byDefault string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if value, ok := k.by[name]; ok {
		return value
	}
	return byDefault
}

func (k *keptSettings) set(name, value string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by == nil {
		k.by = map[string]string{}
	}
	k.by[name] = value
}

// mostKept is the greatest length of a value that is kept, in bytes.
const mostKept = 4 << 10
