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
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/cmd/peerbench/engine"
)

// config holds the command line's settings. Its JSON names are those of the flags.
type config struct {
	Num       int      `json:"num"`
	Reads     int      `json:"reads"` // lookups of a reading workload; -1: the number of keys
	Engines   []string `json:"engines"`
	Workloads []string `json:"workloads"`
	Rounds    int      `json:"rounds"`
	Threads   []int    `json:"threads"` // readers
	Writers   []int    `json:"writers"`
	KeyShape  string   `json:"key_shape"`
	ValueSize int      `json:"value_size"`
	engine.Options

	// If Scale is not empty, these sizes are measured instead of the workloads.
	Scale          []int    `json:"scale,omitempty"`
	ScaleWorkloads []string `json:"scale_workloads,omitempty"`
	scaleOptions

	Profiles string `json:"cpu_profiles,omitempty"` // folder; empty: no profiles

	from []string // not empty: read these files instead of measuring
	dir  string
	out  outputs
}

// outputs are the files to write, and the folder of runs whose ratios are in the summary and README.
type outputs struct{ json, medians, markdown, summary, svg, readme, runs string }

// scaleOptions are for runs by size.
type scaleOptions struct {
	// The part "rates" writes at these shares of each engine's highest rate in per cent, and at these rates.
	RateShares []int `json:"rate_shares,omitempty"`
	Rates      []int `json:"rates,omitempty"`
	RateTime   int   `json:"rate_seconds,omitempty"`
	Overwrites int   `json:"overwrite_percent,omitempty"`
	// A part that takes longer ends the engine's measurement at that size. 0: no limit
	Limit time.Duration `json:"limit_nanoseconds,omitempty"`
}

// The values of --key-shape.
const (
	counterKeys = "counter"
	randomKeys  = "random"
)

// bytesFlag is a number of bytes with an optional unit KiB, MiB or GiB.
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

// parseConfig parses the command line. If help is requested, it prints that to out and returns flag.ErrHelp.
func parseConfig(args []string, drivers []engine.Driver, out io.Writer) (*config, error) {
	c := &config{}
	c.CacheBytes = 64 << 20
	var engines, workloads, threads, writers, scale, scaleWorkloads, rateShares, rates, from string
	fs := flag.NewFlagSet("peerbench", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.IntVar(&c.Num, "num", 1_000_000, "number of `keys`")
	fs.IntVar(&c.Reads, "reads", -1,
		"`lookups` of a reading workload; scans read ten times as many entries; -1: the number of keys")
	fs.StringVar(&engines, "engines", strings.Join(usualEngines(drivers), ","),
		"comma-separated `engines`; also: "+strings.Join(askedEngines(drivers), ", "))
	fs.StringVar(&workloads, "workloads", "all", "comma-separated `workloads`, in this order; all: every one")
	fs.IntVar(&c.Rounds, "rounds", 3, "number of `times` to repeat each measurement")
	fs.StringVar(&threads, "threads", "1",
		"comma-separated numbers of `readers` with which to measure workloads that only read")
	fs.StringVar(&writers, "writers", "1,16",
		"comma-separated numbers of `writers` with which to measure fillrandom, fillsync and the rates of --scale")
	fs.StringVar(&scale, "scale", "", "comma-separated numbers of `keys`: instead of running workloads, fill a database of each size, open, read and recover it, "+
		"with at most a million lookups unless --reads is given; --rounds is the number of openings")
	fs.StringVar(&scaleWorkloads, "scale-workloads", strings.Join(scaleNames(), ","),
		"comma-separated `parts` of --scale, done in an order of their own, and fill always; also: overwrite, readkeys, deleterandom, "+
			"and rates, which writes at fixed rates. With one of these two, each size has one table")
	fs.StringVar(&rateShares, "rate-shares", "50,70,90",
		"comma-separated shares of an engine's highest rate in per `cent`, settling included, for the part rates")
	fs.StringVar(&rates, "rates", "", "comma-separated `writes` per second, the same for all engines, for the part rates")
	fs.IntVar(&c.Overwrites, "overwrites", 20, "`per cent` of the keys that the part overwrite of --scale writes")
	fs.IntVar(&c.RateTime, "rate-time", 60, "`seconds` of writing at each rate, for the part rates")
	fs.DurationVar(&c.Limit, "limit", 0,
		"longest `time` of one part of --scale, such as 3h; an engine that needs more is omitted from the parts that follow; 0: no limit")
	fs.StringVar(&c.KeyShape, "key-shape", counterKeys, "`kind` of keys, which have 16 bytes: counter or random")
	fs.IntVar(&c.ValueSize, "value-size", 100, "`bytes` per value, half compressible")
	fs.Var(bytesFlag{&c.CacheBytes}, "cache", "`bytes` of block cache, with an optional unit such as in 64MiB")
	fs.IntVar(&c.OpenFiles, "open-files", 0,
		"maximum number of open `tables`, in engines with such a setting; 0: each engine's default")
	fs.StringVar(&c.dir, "dir", "", "`folder` for the databases, which are removed; default: a temporary one")
	fs.StringVar(&c.out.json, "json", "", "write conditions and every round's results to this `file`")
	fs.StringVar(&c.out.medians, "medians", "", "write conditions and medians to this `file`, a small one like that of --json")
	fs.StringVar(&c.out.runs, "runs", "",
		"`folder` of files of --medians, one of each machine; --summary and --readme show the ranges of ratios")
	fs.StringVar(&c.out.markdown, "markdown", "", "write the tables to this `file`, between its marks if it exists")
	fs.StringVar(&c.Profiles, "cpuprofiles", "",
		"write a CPU profile of each measured pass, settling included, to this `folder`; not useful for engines in C and C++")
	fs.StringVar(&c.out.svg, "svg", "",
		"draw charts of the medians in files that begin with this `prefix`: -throughput.svg and -cost.svg, or -scale.svg for --scale")
	fs.StringVar(&c.out.summary, "summary", "",
		"write SieveDB's medians with those of the best other engine to this `file`, between its marks")
	fs.StringVar(&c.out.readme, "readme", "",
		"write the table of README.md, from a run with its workloads, to this `file`, between its marks")
	fs.StringVar(&from, "from", "",
		"measure nothing; read comma-separated `files` of --json, of which a later one's results replace those of an earlier one, "+
			"or first the tables of a file of --markdown, and write the other files from them")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		printHelp(fs, out)
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w; see peerbench --help", err)
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; every setting is a flag, see peerbench --help", fs.Arg(0))
	}
	c.Engines, c.Workloads, c.from = bench.SplitList(engines), bench.SplitList(workloads), bench.SplitList(from)
	if slices.Equal(c.Workloads, []string{"all"}) {
		c.Workloads = workloadNames()
	}
	if scale != "" {
		c.ScaleWorkloads = bench.SplitList(scaleWorkloads)
	}
	for _, list := range []struct {
		flag, text string
		all        *[]int
	}{
		{"threads", threads, &c.Threads}, {"writers", writers, &c.Writers}, {"scale", scale, &c.Scale},
		{"rate-shares", rateShares, &c.RateShares}, {"rates", rates, &c.Rates},
	} {
		var err error
		if *list.all, err = numbers(list.text); err != nil {
			return nil, fmt.Errorf("--%s: %w", list.flag, err)
		}
	}
	switch {
	case c.Reads == -1 && c.scaled():
		c.Reads = scaleLookups
	case c.Reads == -1:
		c.Reads = c.Num
	}
	return c, c.validate(drivers)
}

func numbers(list string) (all []int, err error) {
	for _, text := range bench.SplitList(list) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number; want comma-separated numbers", text)
		}
		all = append(all, n)
	}
	return all, nil
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

// bounded is a flag's value with its bounds.
type bounded struct {
	flag             string
	value, low, high int64
}

func (c *config) validate(drivers []engine.Driver) error {
	ranges := []bounded{
		{"num", int64(c.Num), 100, 1 << 30},
		{"reads", int64(c.Reads), 100, 1 << 30},
		{"rounds", int64(c.Rounds), 1, 1000},
		{"value-size", int64(c.ValueSize), 1, 1 << 20},
		{"open-files", int64(c.OpenFiles), 0, 1 << 20},
		{"cache", c.CacheBytes, 1 << 20, 1 << 40},
		{"rate-time", int64(c.RateTime), 1, 86_400},
		{"overwrites", int64(c.Overwrites), 1, 10_000},
		{"limit", int64(c.Limit), 0, int64(1000 * time.Hour)},
	}
	for _, n := range c.Threads {
		ranges = append(ranges, bounded{"threads", int64(n), 1, 1024})
	}
	for _, n := range c.Writers {
		ranges = append(ranges, bounded{"writers", int64(n), 1, 1024})
	}
	for _, n := range c.Scale {
		ranges = append(ranges, bounded{"scale", int64(n), 100, 1 << 30})
	}
	for _, n := range c.RateShares {
		ranges = append(ranges, bounded{"rate-shares", int64(n), 1, 1000})
	}
	for _, n := range c.Rates {
		ranges = append(ranges, bounded{"rates", int64(n), 1, 100_000_000})
	}
	for _, r := range ranges {
		if r.value < r.low || r.value > r.high {
			return fmt.Errorf("--%s is %d; it must be from %d to %d", r.flag, r.value, r.low, r.high)
		}
	}
	if c.KeyShape != counterKeys && c.KeyShape != randomKeys {
		return fmt.Errorf("--key-shape is %q; it must be counter or random", c.KeyShape)
	}
	if len(c.Engines) == 0 || len(c.Workloads) == 0 || len(c.Threads) == 0 || len(c.Writers) == 0 {
		return errors.New("--engines, --workloads, --threads and --writers must not be empty")
	}
	return c.validateNames(drivers)
}

// validateNames checks the names of engines, of parts of the scale runs, and of workloads.
func (c *config) validateNames(drivers []engine.Driver) error {
	for i, name := range c.Engines {
		if slices.Contains(c.Engines[:i], name) {
			return fmt.Errorf("--engines has %s twice; use --rounds to measure repeatedly", name)
		} else if d, ok := findDriver(drivers, name); !ok {
			return fmt.Errorf("--engines has unknown engine %q; want some of: %s", name, strings.Join(engineNames(drivers), ", "))
		} else if d.LeftOut != "" {
			return fmt.Errorf("--engines has %s, which is not in this program: %s", name, d.LeftOut)
		}
	}
	for _, name := range c.ScaleWorkloads {
		if !slices.Contains(scaleParts(), name) {
			return fmt.Errorf("--scale-workloads has unknown part %q; want some of: %s", name, strings.Join(scaleParts(), ", "))
		}
	}
	for _, name := range c.Workloads {
		if _, ok := findWorkload(name); !ok {
			return fmt.Errorf("--workloads has unknown workload %q; want some of: %s", name, strings.Join(workloadNames(), ", "))
		}
	}
	return nil
}

// usualEngines returns the engines that are measured by default.
func usualEngines(drivers []engine.Driver) []string {
	return engineNames(slices.DeleteFunc(slices.Clone(drivers), func(d engine.Driver) bool { return d.Asked }))
}

// askedEngines returns those that are measured only if they are named.
func askedEngines(drivers []engine.Driver) []string {
	return engineNames(slices.DeleteFunc(slices.Clone(drivers), func(d engine.Driver) bool { return !d.Asked }))
}

// engineNames returns the names of the engines in this program.
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

// String describes the settings of the engines.
func (c *config) String() string {
	sizes, of := []int{c.Num}, ""
	if c.scaled() {
		sizes, of = c.Scale, " of opening, one of everything else"
	}
	if c.scaled() && c.scales(rated) {
		of += fmt.Sprintf("; %d seconds at each rate", c.RateTime)
	}
	if c.OpenFiles > 0 {
		of += fmt.Sprintf("; %s open tables", bench.Grouped(uint64(c.OpenFiles)))
	}
	return fmt.Sprintf("%s keys of %d bytes (%s), values of %d bytes, half compressible. %d filter bits, snappy, %s of block cache, %s of write buffer, %d background jobs. %s%s.",
		sizesText(sizes), keySize, c.KeyShape, c.ValueSize, engine.FilterBits,
		bench.SizeText(uint64(c.CacheBytes)), bench.SizeText(engine.WriteBufferSize), engine.BackgroundJobs, bench.Counted(uint64(c.Rounds), "round"), of)
}
