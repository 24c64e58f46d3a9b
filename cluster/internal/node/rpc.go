package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sievedb/sievedb/cluster/internal/consensus"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/wire"
)

// Errors of control calls.
var (
	errNotHosted = errors.New("this node has no working replica of the group")
	errChanged   = errors.New("the group has changed meanwhile")
	errOldPlan   = errors.New("the plan is not the newest: its maker leads group 0 no more, or the map has changed")
)

// wireErrors are the errors of this package that callers on other nodes recognize, by their codes, which never change.
var wireErrors = map[string]error{
	"other-cluster": errOtherCluster, "removed": ErrRemoved, "id-in-use": errIDInUse, "needed": errNeeded, "no-spare": errNoSpare,
	"not-hosted": errNotHosted, "changed": errChanged, "old-plan": errOldPlan,
	"no-live-quorum": consensus.ErrNoLiveQuorum,
}

// handler answers a control call.
type handler func(ctx context.Context, request json.RawMessage) (any, error)

// handle makes f answer the control calls of a name.
func handle[In, Out any](n *Node, name string, f func(ctx context.Context, in In) (Out, error)) {
	h := func(ctx context.Context, raw json.RawMessage) (any, error) {
		var in In
		if err := json.Unmarshal(raw, &in); err != nil {
			return nil, fmt.Errorf("a control call %q: %w", name, err)
		}
		return f(ctx, in)
	}
	n.handlers[name] = h
}

// listen opens the listener with the handlers of control calls. They answer with kv.ErrClosed until the node is ready.
func (n *Node) listen() (err error) {
	var start wire.Start
	if id := n.identity.Load(); id != nil {
		start = id.Start
	}
	n.wire, err = wire.Listen(wire.Options{
		ID: n.o.ID, Incarnation: n.self().Incarnation, Start: start, Met: n.met, RolledBack: n.onRolledBack, Owner: n.owner,
		Address: n.o.Listen, TLS: n.o.TLS, PeerTLS: n.o.PeerTLS, Secret: n.o.Secret, Insecure: n.o.Insecure,
		Cluster: n.clusterName(), Logger: n.o.Logger, Dial: n.o.Dial, Accepted: n.o.Accepted, Bind: n.o.Bind,
		Errors: wireErrors, MaxHandshakes: n.o.MaxHandshakes, Foreign: n.onForeign,
		Loading: "LOADING this node is starting, or waits until another node lets it join",
	})
	if err != nil {
		return err
	}
	if n.addr, err = n.o.address(n.wire.Addr()); err != nil {
		return err
	}
	handle(n, "gossip", n.onGossip)
	handle(n, "join", n.onJoin)
	handle(n, "leave", n.onLeave)
	handle(n, "status", n.onStatus)
	handle(n, "view", n.onView)
	handle(n, "configuration", n.onConfiguration)
	handle(n, "host", n.onHost)
	handle(n, "drop", n.onDrop)
	handle(n, "change", n.onChange)
	handle(n, "mandate", n.onMandate)
	handle(n, "backup", n.onBackup)
	handle(n, "spare", n.onSpare)
	for name, h := range n.handlers {
		n.wire.Handle(name, func(ctx context.Context, request json.RawMessage) (any, error) {
			if !n.isReady() {
				return nil, kv.ErrClosed
			}
			return h(ctx, request)
		})
	}
	n.wire.HandleStream("state", n.onState)
	return nil
}

// owner returns the other node that has an address according to the map, or "". This node's own address has no other
// owner, although the map may still list it for a node that used it before.
func (n *Node) owner(addr string) kv.NodeID {
	if addr == n.o.Advertise {
		return ""
	}
	return n.atlas.owner(addr)
}

func (n *Node) isReady() bool {
	select {
	case <-n.ready:
		return true
	default:
		return false
	}
}

// onState sends the state of a group to a replica that lost its own.
func (n *Node) onState(ctx context.Context, request json.RawMessage, w io.Writer) error {
	var r groupRequest
	if err := json.Unmarshal(request, &r); err != nil {
		return err
	}
	h, err := n.hostedGroup(r.Group)
	if err != nil {
		return err
	}
	_, err = h.state.WriteState(ctx, w)
	return err
}

// target is where a call to a node of the map goes. Calls do not say which incarnation they want, because nodes learn
// of new ones by them.
func (m Member) target() wire.Target { return wire.Target{Peer: wire.Peer{ID: m.ID}, Addr: m.Addr} }

// call asks a node, which may be this one.
func (n *Node) call(ctx context.Context, to wire.Target, name string, in, out any) error {
	switch {
	case to.Addr == "":
		return fmt.Errorf("%w: no address is known for the call %q", kv.ErrNoQuorum, name)
	case to.Addr == n.addr && (to.ID == "" || to.ID == n.o.ID):
		return n.callSelf(ctx, name, in, out)
	}
	return n.wire.Call(ctx, to, name, in, out)
}

func (n *Node) callSelf(ctx context.Context, name string, in, out any) error {
	request, err := json.Marshal(in)
	if err != nil {
		return err
	}
	response, err := n.handlers[name](ctx, request)
	if err != nil {
		return err
	}
	text, err := json.Marshal(response)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}

// callLeader asks the leader of a group, and follows it when it changes, until ctx ends.
func (n *Node) callLeader(ctx context.Context, group kv.GroupID, name string, in, out any) error {
	for {
		err := n.callLeaderOnce(ctx, group, name, in, out)
		if err == nil || !isElsewhere(err) && !errors.Is(err, kv.ErrNoQuorum) {
			return err
		}
		if waitErr := n.sleep(ctx, n.o.Timing.Gossip/4); waitErr != nil {
			return fmt.Errorf("%w (%w)", err, waitErr)
		}
	}
}

func isElsewhere(err error) bool {
	var not *kv.NotLeaderError
	return errors.As(err, &not)
}

func (n *Node) callLeaderOnce(ctx context.Context, group kv.GroupID, name string, in, out any) error {
	to := n.leaderTarget(group)
	for range 4 { // redirections
		err := n.call(ctx, to, name, in, out)
		var not *kv.NotLeaderError
		if !errors.As(err, &not) || not.Leader == "" || not.Leader == to.Addr {
			return err
		}
		to = wire.At(not.Leader) // this node's map may have nobody there yet
	}
	return &kv.NotLeaderError{Group: group}
}
