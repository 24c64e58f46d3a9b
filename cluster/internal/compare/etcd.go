package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdConns is how many connections the clients share: with a connection each, 256 of them measure gRPC.
// etcd's own benchmark shares them too.
const etcdConns = 16

type etcdSession struct{ c *clientv3.Client }

func (s etcdSession) set(key int, value []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := s.c.Put(ctx, string(keyName(key)), string(value))
	return err
}

func (s etcdSession) get(key int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := s.c.Get(ctx, string(keyName(key))) // linearizable by default
	if err == nil && len(r.Kvs) != 1 {
		err = errors.New("a key is absent")
	}
	return err
}

func (etcdSession) close() {}

func dialEtcd(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// startEtcd starts three members. The sessions talk to the leader, as those of sieved do.
func startEtcd(dir string, addrs []string) (*servers, error) {
	clients, peers := addrs[:3], addrs[3:]
	var cluster []string
	for i, p := range peers {
		cluster = append(cluster, fmt.Sprintf("e%d=http://%s", i+1, p))
	}
	s := &servers{}
	for i := range peers {
		name := fmt.Sprintf("e%d", i+1)
		err := s.launch(dir, name, "etcd", "--name", name, "--data-dir", filepath.Join(dir, name), "--logger", "zap", "--log-level", "error",
			"--listen-client-urls", "http://"+clients[i], "--advertise-client-urls", "http://"+clients[i],
			"--listen-peer-urls", "http://"+peers[i], "--initial-advertise-peer-urls", "http://"+peers[i],
			"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-state", "new")
		if err != nil {
			return s, err
		}
	}
	leader := ""
	err := waitFor(func() (err error) {
		leader, err = etcdLeader(clients)
		return err
	})
	if err != nil {
		return s, err
	}
	return s, s.shareEtcd(leader)
}

// shareEtcd opens the connections of the sessions.
func (s *servers) shareEtcd(leader string) error {
	var shared []*clientv3.Client
	for range etcdConns {
		c, err := dialEtcd(leader)
		if err != nil {
			return err
		}
		shared = append(shared, c)
	}
	var next atomic.Int64
	s.connect = func() (session, error) { return etcdSession{shared[int(next.Add(1))%etcdConns]}, nil }
	s.done = func() {
		for _, c := range shared {
			_ = c.Close()
		}
	}
	return nil
}

func etcdLeader(addrs []string) (string, error) {
	for _, addr := range addrs {
		c, err := dialEtcd(addr)
		if err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		status, err := c.Status(ctx, addr)
		cancel()
		_ = c.Close()
		if err != nil {
			return "", err
		}
		if status.Leader == status.Header.MemberId {
			return addr, nil
		}
	}
	return "", errors.New("etcd has no leader")
}
