package remote

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/copaldb/copal"
)

// features are the features of a server.
type features struct {
	expireTime bool  // PEXPIRETIME
	setIf      bool  // SET IFEQ
	deleteIf   bool  // DELIFEQ
	deleteEx   bool  // DELEX IFEQ
	scripts    bool  // EVAL
	noFSync    error // why a write cannot wait for the disk, if so
	copal      bool  // the commands of copal
}

// probe finds the features of the server. It tries commands that change nothing, because versions
// are not enough: a command differs among Redis, Valkey and the services of clouds, and the user
// may lack the right to it. Conditions are tried on a random key, which does not exist. In a
// cluster, one node is asked.
func (r *redis) probe(ctx context.Context) error {
	if r.near != nil {
		r.near.now = r.clock.estimate
	}
	key := []byte("copal:probe:" + rand.Text())
	if _, err := r.get(ctx, ask("PING")); err != nil {
		return err
	}
	// A user may lack the right to the key, but not know a command that the server does not have.
	typed := command{name: "COPAL.TYPED", words: []string{"GET"}, keyed: true, key: string(key), reads: true}
	if _, err := r.get(ctx, typed); err == nil || refused(err, "NOPERM") {
		r.has = features{copal: true, expireTime: true, setIf: true, deleteIf: true, deleteEx: true}
		return nil
	} else if refused(err, "LOADING", "NOAUTH", "CLUSTERDOWN") {
		return err
	}
	probes := []struct {
		command
		has *bool
	}{
		{read("PEXPIRETIME", key), &r.has.expireTime},
		{write("SET", key, "1", "IFEQ", "0"), &r.has.setIf},
		{write("DELIFEQ", key, "0"), &r.has.deleteIf},
		{write("DELEX", key, "IFEQ", "0"), &r.has.deleteEx},
		{command{name: "EVAL", words: []string{"return 1", "1"}, keyed: true, key: string(key)}, &r.has.scripts},
	}
	for _, p := range probes {
		replies, err := r.do(ctx, p.command)
		if err != nil {
			return err
		}
		if _, err := message(replies[0]); err == nil {
			*p.has = true
		} else if refused(err, "LOADING", "NOAUTH", "CLUSTERDOWN") {
			return err
		}
	}
	return r.probeFSync(ctx, key)
}

// probeFSync finds out whether writes can wait for the disk. On a connection that has not written WAITAOF waits for
// nothing, and still says if it could not.
func (r *redis) probeFSync(ctx context.Context, key []byte) error {
	err := r.alone(ctx, func(ctx context.Context, on rueidis.CommandClient) error {
		one := r.onto(on)
		replies, err := one.do(ctx, read("EXISTS", key), waitForDisk(ctx)) // the key leads to a node
		if err != nil {
			return err
		}
		switch _, err := message(replies[1]); {
		case err == nil:
		case strings.Contains(err.Error(), "unknown command"):
			r.has.noFSync = fmt.Errorf("%w: the server has no WAITAOF, which Redis has from 7.2 on; a write that needs it is not made", copal.ErrDurability)
		default:
			r.has.noFSync = fmt.Errorf("%w: the server cannot wait for its disk, and a write that needs it is not made: %w", copal.ErrDurability, err)
		}
		return nil
	})
	return err
}
