// Command compare measures sieved and a single Redis and etcd, with the same work on the same file system:
//
//	cd cluster/internal/compare
//	GOWORK=off go run . --seconds=5 --rounds=3
//
// It needs redis-server and etcd of the Debian packages redis-server and etcd-server, and leaves out what is
// not installed. All servers are processes on loopback that sync each write before they acknowledge it.
// In each round it starts the systems one after the other, so that a change of the machine meets all of
// them, and it prints medians over the rounds as the tables of docs/cluster-performance.md.
//
// It is a module of its own, so that the client of etcd is not a dependency of the cluster.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// config is the flags.
type config struct {
	seconds  float64
	rounds   int
	clients  []int
	keys     int
	valueLen int
	dir      string
	only     *regexp.Regexp
}

func parse() (c config, err error) {
	clients := flag.String("clients", "1,16,256", "numbers of clients")
	only := flag.String("only", ".", "regular expression of the systems to measure")
	flag.Float64Var(&c.seconds, "seconds", 5, "length of each measurement")
	flag.IntVar(&c.rounds, "rounds", 3, "measurements of each kind, of which the median counts")
	flag.IntVar(&c.keys, "keys", 100_000, "number of keys")
	flag.IntVar(&c.valueLen, "value", 100, "bytes of a value")
	flag.StringVar(&c.dir, "dir", "", "directory for data (default: a temporary one)")
	flag.Parse()
	for _, text := range strings.Split(*clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return c, fmt.Errorf("--clients has %q; it must be numbers, separated by commas", text)
		}
		c.clients = append(c.clients, n)
	}
	if c.seconds <= 0 || c.rounds < 1 || c.keys < 1 || c.valueLen < 1 {
		return c, errors.New("--seconds, --rounds, --keys and --value must be positive")
	}
	c.only, err = regexp.Compile(*only)
	return c, err
}

func main() {
	c, err := parse()
	if err == nil {
		err = compare(c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(c config) (err error) {
	if c.dir, err = os.MkdirTemp(c.dir, "compare-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	program := filepath.Join(c.dir, "sieved")
	build := exec.Command("go", "build", "-o", program, "./cmd/sieved")
	build.Dir, build.Env = "../..", append(os.Environ(), "GOWORK=") // the workspace has the store
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	all, err := systems(program)
	if err != nil {
		return err
	}
	results := newResults()
	for round := range c.rounds {
		for _, s := range all {
			if !c.only.MatchString(s.name) {
				continue
			}
			begin := time.Now()
			if err := measureSystem(c, s, results); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			fmt.Printf("round %d: %s took %.1f s\n", round+1, s.name, time.Since(begin).Seconds())
		}
	}
	fmt.Println(results.table(c))
	return nil
}

// run runs a program whose output matters only if it fails.
func run(program string, args ...string) error {
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", program, args[0], err, out)
	}
	return nil
}
