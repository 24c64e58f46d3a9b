package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sievedb/sievedb/cluster/internal/process"
)

// demo is the story of sieved demo. Each step prints what it found.
type demo struct {
	out     io.Writer
	began   time.Time
	nodes   []*process.Node
	traffic *traffic
}

func demoCommand() *cobra.Command {
	var seconds int
	var keep bool
	cmd := &cobra.Command{
		Use: "demo", Short: "Start three nodes here, kill one, and check that nothing acknowledged is lost",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), cmd.OutOrStdout(), time.Duration(seconds)*time.Second, keep)
		},
	}
	cmd.Flags().IntVar(&seconds, "seconds", 3, "how long to write before and after the kill")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the directories of the nodes, with their logs")
	return cmd
}

func runDemo(ctx context.Context, out io.Writer, phase time.Duration, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "sieved-demo-")
	if err != nil {
		return err
	}
	d := &demo{out: out, began: time.Now()}
	defer func() {
		for _, p := range d.nodes {
			p.Kill()
		}
		if keep {
			d.say("The directories of the nodes are in %s.", dir)
		} else {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute+2*phase)
	defer cancel()
	if err := d.start(ctx, dir); err != nil {
		return d.explain(err)
	}
	d.traffic = startTraffic(ctx, d.addrs())
	defer d.traffic.close()
	if err := d.killAndVerify(ctx, phase); err != nil {
		return d.explain(err)
	}
	d.say("All of this was verified. The nodes are stopped and their files are removed.")
	return nil
}

// say prints a line with the time since the start.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "%6.2fs  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

// explain adds the ends of the nodes' logs to an error.
func (d *demo) explain(err error) error {
	for _, p := range d.nodes {
		fmt.Fprintf(d.out, "\nThe last lines of node %s:\n%s", p.ID, p.LastLines(8))
	}
	return err
}

func (d *demo) addrs() (addrs []string) {
	for _, p := range d.nodes {
		addrs = append(addrs, p.Addr)
	}
	return addrs
}

// start starts three nodes and waits until each group has three replicas.
func (d *demo) start(ctx context.Context, dir string) error {
	for i := range 3 {
		p, err := newNode(dir, fmt.Sprint(i+1))
		if err != nil {
			return err
		}
		if i > 0 {
			p.Args = append(p.Args, "--join", d.nodes[0].Addr)
		} else if err := p.Init(ctx, "--groups", "4"); err != nil {
			return err
		}
		if err := p.Start(); err != nil {
			return err
		}
		d.nodes = append(d.nodes, p)
		if _, err := waitGroups(ctx, p, 1); err != nil {
			return err
		}
		d.say("Node %s answers at %s (process %d).", p.ID, p.Addr, p.Pid())
	}
	leads, err := waitGroups(ctx, d.nodes[0], 3)
	if err != nil {
		return err
	}
	d.say("4 groups have 3 replicas each. Groups led by each node: %v.", leads)
	return nil
}

// killAndVerify is the main part: writes, a kill, writes, a comparison, and a restart.
func (d *demo) killAndVerify(ctx context.Context, phase time.Duration) error {
	if err := pause(ctx, phase); err != nil {
		return err
	}
	before := d.traffic.count()
	if before == 0 {
		return fmt.Errorf("no write was acknowledged in %v: %w", phase, d.traffic.lastError())
	}
	d.say("8 writers use go-redis's cluster client: %d writes are acknowledged, %.0f per second.",
		before, float64(before)/phase.Seconds())

	victim, leads, err := d.busiest(ctx)
	if err != nil {
		return err
	}
	killed := time.Now()
	victim.Kill()
	d.say("SIGKILL to node %s, which leads %d of 4 groups.", victim.ID, leads)
	gap, err := d.traffic.waitAllGroups(ctx, killed)
	if err != nil {
		return err
	}
	d.say("Writes to every group work again. The last one did after %.2f s.", gap.Seconds())
	if err := pause(ctx, phase); err != nil {
		return err
	}
	d.traffic.stop()
	acknowledged, failed := d.traffic.result()
	d.say("The writers stop: %d writes are acknowledged; %d attempts failed and were repeated.", len(acknowledged), failed)

	if err := d.traffic.verify(ctx, acknowledged); err != nil {
		return err
	}
	d.say("Each of the %d acknowledged writes was read back from the two nodes: none is lost.", len(acknowledged))
	return d.restart(ctx, victim, acknowledged)
}

// restart starts the killed node again, and reads everything from its own replicas.
func (d *demo) restart(ctx context.Context, victim *process.Node, acknowledged map[string]string) error {
	began := time.Now()
	if err := victim.Start(); err != nil {
		return err
	}
	if _, err := waitGroups(ctx, victim, 1); err != nil {
		return err
	}
	d.say("Node %s is started again, with what its directory has. It answers after %.2f s.", victim.ID, time.Since(began).Seconds())
	if err := waitCopied(ctx, victim, acknowledged); err != nil {
		return err
	}
	d.say("Its own replicas have all %d writes, %.2f s after its start.", len(acknowledged), time.Since(began).Seconds())
	return nil
}

// busiest returns the node that leads most groups, and how many these are.
func (d *demo) busiest(ctx context.Context) (victim *process.Node, leads int, err error) {
	all, err := waitGroups(ctx, d.nodes[0], 1)
	if err != nil {
		return nil, 0, err
	}
	for _, p := range d.nodes {
		if victim == nil || all[p.ID] > leads {
			victim, leads = p, all[p.ID]
		}
	}
	return victim, leads, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
