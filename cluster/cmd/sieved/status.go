package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sievedb/sievedb/cluster/internal/overview"
)

// lookTimeout bounds the wait for each node. A node itself waits a heartbeat for the others.
const lookTimeout = 10 * time.Second

func lookCommands() []*cobra.Command {
	return []*cobra.Command{statusCommand(), nodesCommand(), groupsCommand(), healthCommand(), removeCommand()}
}

// looker is what the commands that look at a cluster have in common.
type looker struct {
	remote
	addrs  []string
	asJSON bool
}

func (l *looker) addFlags(cmd *cobra.Command) {
	l.remote.addSecrets(cmd)
	f := cmd.Flags()
	f.Var(newAddresses(&l.addrs, "127.0.0.1:7001"), "node", "addresses of nodes; one is enough, and several show "+
		"whether they agree")
	f.BoolVar(&l.asJSON, "json", false, "print JSON")
}

// answer is what the nodes that were asked say.
type answer struct {
	overview.Overview
	// Unanswered are the addresses that gave no overview.
	Unanswered []unanswered `json:"unanswered,omitempty"`
	// Disagree are sentences about nodes that see less than the one whose overview this is.
	Disagree []string `json:"disagree,omitempty"`
	asked    int
}

// unanswered is an address without an answer.
type unanswered struct {
	Node  string `json:"node"`
	Error string `json:"error"`
}

// look asks all addresses at the same time, and returns the overview of the node that reaches most others.
func (l *looker) look(ctx context.Context) (answer, error) {
	views, errs := make([]*overview.Overview, len(l.addrs)), make([]error, len(l.addrs))
	var asking sync.WaitGroup
	for i, addr := range l.addrs {
		asking.Go(func() { views[i], errs[i] = l.ask(ctx, addr) })
	}
	asking.Wait()
	a, found := choose(l.addrs, views, errs)
	if !found {
		var texts []string
		for _, u := range a.Unanswered {
			texts = append(texts, u.text())
		}
		return a, errors.New(strings.Join(texts, "; "))
	}
	return a, nil
}

func (u unanswered) text() string { return fmt.Sprintf("%s gives no overview: %s", u.Node, u.Error) }

// ask returns the overview of a node.
func (l *looker) ask(ctx context.Context, addr string) (o *overview.Overview, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	to := l.remote
	to.addr, to.timeout = addr, lookTimeout
	c, err := to.client()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	text, err := c.Do(ctx, "RAFT.OVERVIEW").Text()
	if err != nil {
		return nil, to.explain(err)
	}
	o = &overview.Overview{}
	if err := json.Unmarshal([]byte(text), o); err != nil {
		return nil, fmt.Errorf("its answer is of another form; is it another version of sieved? %w", err)
	}
	return o, nil
}

// silence is a logger that logs nothing.
type silence struct{}

// Printf implements the interface of go-redis.
func (silence) Printf(context.Context, string, ...any) {}

// choose takes the overview of the node that reaches most others: behind a cut network, the view of the larger part
// says what clients can do.
func choose(addrs []string, views []*overview.Overview, errs []error) (a answer, found bool) {
	a.asked = len(addrs)
	reach := func(o *overview.Overview) int {
		if o.Removed {
			return -1
		}
		return o.Answering()
	}
	var best *overview.Overview
	for i, o := range views {
		switch {
		case o == nil:
			a.Unanswered = append(a.Unanswered, unanswered{addrs[i], errs[i].Error()})
		case best == nil || reach(o) > reach(best) || reach(o) == reach(best) && o.MapVersion > best.MapVersion:
			best = o
		}
	}
	if best == nil {
		return a, false
	}
	a.Overview = *best
	for i, o := range views {
		switch {
		case o == nil || o == best:
		case o.Cluster != best.Cluster:
			a.Disagree = append(a.Disagree, fmt.Sprintf("%s is of another cluster, %s.", addrs[i], o.Cluster))
		case o.Removed:
			a.Disagree = append(a.Disagree, fmt.Sprintf("Node %s at %s was removed from the cluster.",
				o.Node, addrs[i]))
		case reach(o) < reach(best):
			a.Disagree = append(a.Disagree, fmt.Sprintf("Node %s at %s reaches %d nodes, node %s reaches %d: is "+
				"the network cut?",
				o.Node, addrs[i], reach(o), best.Node, reach(best)))
		}
	}
	return a, true
}

// problems returns an error if an operator should look: for scripts.
func (a *answer) problems() error {
	var counts []string
	for _, severity := range []overview.Severity{overview.Critical, overview.Warning} {
		n := 0
		for _, f := range a.Findings {
			if f.Severity == severity {
				n++
			}
		}
		if n > 0 {
			text := fmt.Sprintf("%d %s", n, map[overview.Severity]string{
				overview.Critical: "critical problem", overview.Warning: "warning"}[severity])
			if n > 1 {
				text += "s"
			}
			counts = append(counts, text)
		}
	}
	if n := len(a.Unanswered) + len(a.Disagree); n > 0 {
		counts = append(counts, fmt.Sprintf("%d of %d nodes asked give no answer or another one", n, a.asked))
	}
	if len(counts) == 0 {
		return nil
	}
	return fmt.Errorf("the cluster is not healthy: %s", strings.Join(counts, ", "))
}

// lookCommand returns a command that prints what a cluster is like.
func lookCommand(use, short, long string, l *looker, show func(out io.Writer, a *answer) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := l.look(cmd.Context())
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), &a)
		},
	}
	l.addFlags(cmd)
	return cmd
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func statusCommand() *cobra.Command {
	var l looker
	return lookCommand("status", "Show how a cluster and its nodes are",
		`Show what is wrong with a cluster and what to do, and the figures of each node: those of a silent node are the last
ones known. The exit code is 0 if a node answers.`, &l, func(out io.Writer, a *answer) error {
			if l.asJSON {
				return printJSON(out, a)
			}
			return newPaper(out).status(a)
		})
}

func nodesCommand() *cobra.Command {
	var l looker
	return lookCommand("nodes", "List the nodes of a cluster", "", &l, func(out io.Writer, a *answer) error {
		if l.asJSON {
			return printJSON(out, a.Nodes)
		}
		return newPaper(out).nodes(a)
	})
}

func groupsCommand() *cobra.Command {
	var l looker
	var replicas bool
	cmd := lookCommand("groups", "List the groups of a cluster, with their leaders and replicas",
		`List the groups with their slots, leaders and replicas: what a replica lacks is after its node, as in 3(-12).
With --replicas, list each replica with the index of the last entry that its state has applied, and that its log has. If
a majority is lost, 'sieved status' names the node that 'sieved recover' should use.`, &l, func(out io.Writer, a *answer) error {
			switch {
			case l.asJSON:
				return printJSON(out, a.Groups)
			case replicas:
				return newPaper(out).replicas(a)
			}
			return newPaper(out).groups(a)
		})
	cmd.Flags().BoolVar(&replicas, "replicas", false, "print a line for each replica")
	return cmd
}

func healthCommand() *cobra.Command {
	var l looker
	return lookCommand("health", "Say what is wrong with a cluster; the exit code is 0 if nothing is",
		`Say what is wrong with a cluster, what that means for clients, and what to do. The exit code is 0 if nothing is wrong,
otherwise 1: also if a node of --node does not answer, or if they disagree. Notes are printed, and are not wrong.`, &l,
		func(out io.Writer, a *answer) error {
			problems := a.problems()
			if l.asJSON {
				return errors.Join(problems, printJSON(out, struct {
					Healthy    bool               `json:"healthy"`
					Findings   []overview.Finding `json:"findings"`
					Unanswered []unanswered       `json:"unanswered,omitempty"`
					Disagree   []string           `json:"disagree,omitempty"`
				}{problems == nil, append([]overview.Finding{}, a.Findings...), a.Unanswered, a.Disagree}))
			}
			p := newPaper(out)
			if problems == nil {
				p.summary(a, "healthy: ")
			}
			p.findings(a)
			return errors.Join(problems, p.err)
		})
}

func removeCommand() *cobra.Command {
	node := remote{timeout: lookTimeout}
	cmd := &cobra.Command{
		Use: "remove ID", Short: "Move a node's replicas to other nodes, and remove it from the cluster",
		Long: `Move a node's replicas to other nodes, and then remove it from the cluster: its process ends. The node may be dead.
The command does not wait for that; 'sieved health' says what is left. To return, the node needs an empty --dir and --join.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			c, err := node.client()
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, c.Close()) }()
			if err := c.Do(cmd.Context(), "RAFT.REMOVE", args[0]).Err(); err != nil {
				return node.explain(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "node %s is being removed; sieved health says what is left\n", args[0])
			return err
		},
	}
	node.addFlags(cmd)
	return cmd
}

// addresses is a flag of addresses, which may be repeated or have commas.
type addresses struct {
	all *[]string
	set bool
}

func newAddresses(all *[]string, initial string) *addresses {
	*all = []string{initial}
	return &addresses{all: all}
}

// String implements pflag.Value.
func (a *addresses) String() string { return strings.Join(*a.all, ",") }

// Type implements pflag.Value.
func (a *addresses) Type() string { return "addresses" }

// Set implements pflag.Value.
func (a *addresses) Set(text string) error {
	if !a.set {
		*a.all, a.set = nil, true
	}
	for _, addr := range strings.Split(text, ",") {
		if addr = strings.TrimSpace(addr); addr != "" && !slices.Contains(*a.all, addr) {
			*a.all = append(*a.all, addr)
		}
	}
	if len(*a.all) == 0 {
		return errors.New("it has no address")
	}
	return nil
}
