package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/remote"
)

// etcdLines measures the Map on copal serve, with FSync, beside etcd, which syncs each write before
// it answers.
func etcdLines(ctx context.Context, dir, copalAt string, wanted *regexp.Regexp) (err error) {
	if _, err := exec.LookPath("etcd"); err != nil {
		fmt.Println("etcd is not installed, so its lines are left out")
		return nil
	}
	client, stop, err := startEtcd(ctx, dir)
	if err != nil {
		return err
	}
	defer stop()
	users, end, err := open(ctx, remote.Config{Addresses: []string{copalAt}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	return measureAll(ctx, "etcd", []string{"Get", "Set", "Update"}, []side{typed{users.With(copal.FSync)}, &ofEtcd{client}}, wanted)
}

// startEtcd starts one etcd, and waits until it answers.
func startEtcd(ctx context.Context, dir string) (client *clientv3.Client, stop func(), err error) {
	var urls [2]string
	for i := range urls {
		l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free now
		if err != nil {
			return nil, nil, err
		}
		urls[i] = "http://" + l.Addr().String()
		l.Close()
	}
	server := exec.Command("etcd", "--data-dir", dir, "--log-level", "error", "--listen-client-urls", urls[0], "--advertise-client-urls", urls[0],
		"--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1], "--initial-cluster", "default="+urls[1])
	if err := server.Start(); err != nil {
		return nil, nil, err
	}
	kill := func() { server.Process.Kill(); server.Wait() }
	client, err = clientv3.New(clientv3.Config{Endpoints: []string{urls[0]}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		kill()
		return nil, nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if _, err := client.Get(waiting, "nothing"); err != nil {
		client.Close()
		kill()
		return nil, nil, err
	}
	return client, func() { client.Close(); kill() }, nil
}

// ofEtcd is the client of etcd with encoding/json.
type ofEtcd struct{ client *clientv3.Client }

func (e *ofEtcd) read(ctx context.Context, key string) (u user, revision int64, err error) {
	r, err := e.client.Get(ctx, "hand:"+key)
	if err != nil {
		return u, 0, err
	}
	if len(r.Kvs) == 0 {
		return u, 0, copal.ErrNotFound
	}
	return u, r.Kvs[0].ModRevision, json.Unmarshal(r.Kvs[0].Value, &u)
}

func (e *ofEtcd) get(ctx context.Context, key string) (user, error) {
	u, _, err := e.read(ctx, key)
	return u, err
}

func (e *ofEtcd) set(ctx context.Context, key string, u user) error {
	b, err := json.Marshal(&u)
	if err != nil {
		return err
	}
	_, err = e.client.Put(ctx, "hand:"+key, string(b))
	return err
}

func (e *ofEtcd) update(ctx context.Context, key string) error {
	for {
		u, revision, err := e.read(ctx, key)
		if err != nil {
			return err
		}
		u.Logins++
		b, err := json.Marshal(&u)
		if err != nil {
			return err
		}
		is := clientv3.Compare(clientv3.ModRevision("hand:"+key), "=", revision)
		r, err := e.client.Txn(ctx).If(is).Then(clientv3.OpPut("hand:"+key, string(b))).Commit()
		if err != nil || r.Succeeded {
			return err
		}
	}
}
