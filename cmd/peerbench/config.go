package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/cmd/peerbench/engine"
)

// config is what the command line asks for. Its JSON names are the flags'.
type config struct {
	Num       int      `json:"num"`
	Reads     int      `json:"reads"` // of a reading workload; -1: as many as there are keys
	ColdReads int      `json:"cold_reads"`
	Engines   []string `json:"engines"`
	Workloads []string `json:"workloads"`
	Rounds    int      `json:"rounds"`
	Threads   []int    `json:"threads"` // readers
	KeyShape  string   `json:"key_shape"`
	ValueSize int      `json:"value_size"`
	engine.Options

	dir, json, markdown, svg string
}

// The values of --key-shape.
const (
	counterKeys = "counter"
	randomKeys  = "random"
)

// bytesFlag is a number of bytes, with KiB, MiB or GiB behind it or without.
type bytesFlag struct{ bytes *int64 }

func (f bytesFlag) String() string {
	if f.bytes == nil {
		return ""
	}
	return bench.SizeText(uint64(*f.bytes))
}

func (f bytesFlag) Set(s string) error {
	number, shift := s, 0
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			number, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return errors.New("want a number of bytes, or one with KiB, MiB or GiB")
	}
	*f.bytes = n << shift
	return nil
}

// parseConfig reads the command line. Help goes to out; then the error is
// flag.ErrHelp.
func parseConfig(args []string, drivers []engine.Driver, out io.Writer) (*config, error) {
	c := &config{Threads: []int{1}}
	c.CacheBytes, c.BackgroundJobs = 64<<20, 2
	writeBuffer := int64(16 << 20)
	var engines, workloads, threads string
	fs := flag.NewFlagSet("peerbench", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.IntVar(&c.Num, "num", 1_000_000, "`keys`")
	fs.IntVar(&c.Reads, "reads", -1, "`lookups` of a reading workload; -1: as many as there are keys")
	fs.IntVar(&c.ColdReads, "cold-reads", 2000, "`lookups` of coldrandom, and a tenth of those of coldmissing")
	fs.StringVar(&engines, "engines", strings.Join(engineNames(drivers), ","), "`engines`, with commas between")
	fs.StringVar(&workloads, "workloads", "all", "`workloads`, with commas between, in this order; all: every one")
	fs.IntVar(&c.Rounds, "rounds", 3, "`times` that each measurement is made")
	fs.StringVar(&threads, "threads", "1", "`readers` of the workloads that only read, with commas between: each number is measured")
	fs.StringVar(&c.KeyShape, "key-shape", counterKeys, "`kind` of the 16 bytes of a key: counter or random")
	fs.IntVar(&c.ValueSize, "value-size", 100, "`bytes` of a value, half compressible")
	fs.IntVar(&c.FilterBits, "filter-bits", 10, "`bits` of filter for each key; 0: no filters")
	fs.StringVar(&c.Compression, "compression", engine.Snappy, "`kind`: none, snappy or zstd")
	fs.Var(bytesFlag{&c.CacheBytes}, "cache", "`bytes` of block cache (also 64MiB)")
	fs.Var(bytesFlag{&writeBuffer}, "write-buffer", "`bytes` of a memtable (also 16MiB)")
	fs.StringVar(&c.dir, "dir", "", "`folder` in which the databases are made and removed; default: a temporary one")
	fs.StringVar(&c.json, "json", "", "write conditions and every round's results to this `file`")
	fs.StringVar(&c.markdown, "markdown", "", "write the tables to this `file`, between its marks if it has them")
	fs.StringVar(&c.svg, "svg", "", "draw the medians in this `file`")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		printHelp(fs, out)
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w; see peerbench --help", err)
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; every setting is a flag, see peerbench --help", fs.Arg(0))
	}
	c.Engines, c.Workloads, c.WriteBufferSize = bench.SplitList(engines), bench.SplitList(workloads), int(min(writeBuffer, math.MaxInt32))
	c.Threads = nil
	for _, text := range bench.SplitList(threads) {
		n, _ := strconv.Atoi(text) // validate refuses 0
		c.Threads = append(c.Threads, n)
	}
	if slices.Equal(c.Workloads, []string{"all"}) {
		c.Workloads = workloadNames()
	}
	if c.Reads < 0 {
		c.Reads = c.Num
	}
	return c, c.validate(drivers)
}

func printHelp(fs *flag.FlagSet, out io.Writer) {
	fmt.Fprint(out, "peerbench measures SieveDB and other stores with the same workloads.\n\nWorkloads:\n")
	for _, w := range workloads {
		fmt.Fprintf(out, "  %-22s %s\n", w.name, w.about)
	}
	fmt.Fprint(out, "\nFlags:\n")
	fs.SetOutput(out)
	fs.PrintDefaults()
}

func (c *config) validate(drivers []engine.Driver) error {
	ranges := []struct {
		flag             string
		value, low, high int64
	}{
		{"num", int64(c.Num), 100, 1 << 30},
		{"reads", int64(c.Reads), 100, 1 << 30},
		{"cold-reads", int64(c.ColdReads), 1, 1 << 30},
		{"rounds", int64(c.Rounds), 1, 1000},
		{"value-size", int64(c.ValueSize), 1, 1 << 20},
		{"filter-bits", int64(c.FilterBits), 0, 50},
		{"cache", c.CacheBytes, 1 << 20, 1 << 40},
		{"write-buffer", int64(c.WriteBufferSize), 1 << 20, 1 << 30},
	}
	for _, n := range c.Threads {
		ranges = append(ranges, struct {
			flag             string
			value, low, high int64
		}{"threads", int64(n), 1, 1024})
	}
	for _, r := range ranges {
		if r.value < r.low || r.value > r.high {
			return fmt.Errorf("--%s is %d; it must be from %d to %d", r.flag, r.value, r.low, r.high)
		}
	}
	if c.KeyShape != counterKeys && c.KeyShape != randomKeys {
		return fmt.Errorf("--key-shape is %q; it must be counter or random", c.KeyShape)
	}
	if !slices.Contains([]string{engine.None, engine.Snappy, engine.Zstd}, c.Compression) {
		return fmt.Errorf("--compression is %q; it must be none, snappy or zstd", c.Compression)
	}
	if len(c.Engines) == 0 || len(c.Workloads) == 0 || len(c.Threads) == 0 {
		return errors.New("--engines, --workloads and --threads must each name something")
	}
	for _, name := range c.Engines {
		if d, ok := findDriver(drivers, name); !ok {
			return fmt.Errorf("--engines names %q; there are: %s", name, strings.Join(engineNames(drivers), ", "))
		} else if d.LeftOut != "" {
			return fmt.Errorf("--engines names %s, which is not in this program: %s", name, d.LeftOut)
		}
	}
	for _, name := range c.Workloads {
		if _, ok := findWorkload(name); !ok {
			return fmt.Errorf("--workloads names %q; there are: %s", name, strings.Join(workloadNames(), ", "))
		}
	}
	return nil
}

// engineNames are those of the engines in this program.
func engineNames(drivers []engine.Driver) []string {
	var names []string
	for _, d := range drivers {
		if d.LeftOut == "" {
			names = append(names, d.Name)
		}
	}
	return names
}

func findDriver(drivers []engine.Driver, name string) (engine.Driver, bool) {
	i := slices.IndexFunc(drivers, func(d engine.Driver) bool { return d.Name == name })
	if i < 0 {
		return engine.Driver{}, false
	}
	return drivers[i], true
}

// String says under which settings the engines run.
func (c *config) String() string {
	return fmt.Sprintf("%s keys of %d bytes (%s), values of %d bytes, half compressible. %d filter bits, %s, %s of block cache, %s of write buffer, %d background jobs. %s.",
		bench.Grouped(uint64(c.Num)), keySize, c.KeyShape, c.ValueSize, c.FilterBits, c.Compression,
		bench.SizeText(uint64(c.CacheBytes)), bench.SizeText(uint64(c.WriteBufferSize)), c.BackgroundJobs, bench.Counted(uint64(c.Rounds), "round"))
}
