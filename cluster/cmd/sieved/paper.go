package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sievedb/sievedb/cluster/internal/overview"
	"github.com/sievedb/sievedb/report/columns"
)

// paper is where tables and sentences for people go. Its first error sticks.
type paper struct {
	out   io.Writer
	width int // of a terminal; 0 in a pipe, where nothing is cut or broken
	err   error
}

func newPaper(out io.Writer) *paper { return &paper{out: out, width: terminalWidth(out)} }

// terminalWidth is 80 for a terminal, unless COLUMNS says otherwise, and 0 for anything else.
func terminalWidth(out io.Writer) int {
	file, isFile := out.(*os.File)
	if !isFile {
		return 0
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return 0
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= 40 {
		return n
	}
	return 80
}

// line prints a text. A terminal may take control characters as commands, and some texts come from other nodes.
func (p *paper) line(text string) {
	text = strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return '?'
		}
		return r
	}, text)
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.out, text)
	}
}

// table prints rows below heads, whose marks are those of columns.NewColumn. A column that narrow terminals can do
// without is left out if it has nothing.
func (p *paper) table(heads []string, rows [][]string) error {
	for _, row := range rows {
		for i := range row {
			row[i] = strings.Join(strings.Fields(row[i]), " ")
		}
	}
	t := columns.Table{Metric: columns.Runes, Rows: rows}
	for _, head := range heads {
		t.Columns = append(t.Columns, columns.NewColumn(head))
	}
	for i := len(heads) - 1; i >= 0; i-- {
		filled := func(row []string) bool { return row[i] != "" && row[i] != "-" }
		if !t.Columns[i].Extra || slices.ContainsFunc(rows, filled) {
			continue
		}
		t.Columns = slices.Delete(t.Columns, i, i+1)
		for n := range rows {
			rows[n] = slices.Delete(rows[n], i, i+1)
		}
	}
	t.Measure()
	shown := t.Fit(p.width)
	p.line(t.Line(shown, t.Heads()))
	for _, row := range rows {
		p.line(t.Line(shown, row))
	}
	if hidden := t.Hidden(shown); len(hidden) > 0 {
		p.line(columns.Runes.Wrap("not shown: "+strings.Join(hidden, ", ")+"; --json has all", p.width, 2))
	}
	return p.err
}

// sentence prints what follows a word, and breaks it at the width of a terminal.
func (p *paper) sentence(word, text string) {
	p.line(columns.Runes.Wrap(fmt.Sprintf("%-8s  %s", word, text), p.width, 10))
}

// findings prints the sentences about a cluster.
func (p *paper) findings(a *answer) {
	for _, f := range a.Findings {
		p.sentence(strings.ToUpper(string(f.Severity)), strings.TrimSpace(f.Text+" "+f.Next))
	}
	for _, u := range a.Unanswered {
		p.sentence("WARNING", u.text()+".")
	}
	for _, text := range a.Disagree {
		p.sentence("WARNING", text)
	}
}

func (p *paper) summary(a *answer, begin string) {
	p.line(columns.Runes.Wrap(fmt.Sprintf("%s%d of %d nodes answer node %s, %d of %d groups have a leader",
		begin, a.Answering(), len(a.Nodes), a.Node, a.Led(), len(a.Groups)), p.width, 2))
}

func (p *paper) status(a *answer) error {
	p.summary(a, "")
	p.findings(a)
	p.line("")
	var rows [][]string
	for _, n := range a.Nodes {
		row := []string{n.ID, state(n), "-", strconv.Itoa(n.Leads), "-", "-", "-", "-", "-"}
		if f := n.Figures; f != nil {
			row[2] = overview.Duration(time.Duration(f.UptimeSeconds) * time.Second)
			row[4] = overview.Number(uint64(f.CommandsPerSecond + 0.5))
			if f.FsyncP99Us > 0 {
				row[5] = overview.Duration(time.Duration(f.FsyncP99Us) * time.Microsecond)
			}
			if f.DiskUsedBytes > 0 {
				row[6] = overview.Bytes(f.DiskUsedBytes)
			}
			row[7], row[8] = overview.Bytes(f.DiskFreeBytes), overview.Bytes(f.MemoryBytes)
		}
		rows = append(rows, row)
	}
	return p.table([]string{"~node", "state", "+up", "leads", "commands/s", "fsync p99", "disk", "free", "+memory"},
		rows)
}

// state is that of a node, and for how long it is silent.
func state(n overview.Node) string {
	if n.Answered {
		return n.State
	}
	return n.State + " " + overview.Duration(time.Duration(n.SilentMs)*time.Millisecond)
}

func (p *paper) nodes(a *answer) error {
	var rows [][]string
	for _, n := range a.Nodes {
		version := "-"
		if n.Figures != nil {
			version = n.Figures.Version
		}
		rows = append(rows, []string{n.ID, state(n), n.Addr, cmp.Or(n.Zone, "-"), strconv.Itoa(n.Leads),
			strconv.Itoa(n.Replicas),
			version, n.Why})
	}
	return p.table([]string{"~node", "state", "~address", "+~zone", "leads", "replicas", "~version", "+~why"}, rows)
}

// term is 0 without a leader.
func term(n uint64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func (p *paper) groups(a *answer) error {
	var rows [][]string
	for _, g := range a.Groups {
		var replicas []string
		for _, r := range g.Replicas {
			text := r.Node
			switch {
			case !r.Known:
				text += "(silent)"
			case r.Failed != "":
				text += "(failed)"
			case r.Absent:
				text += "(absent)"
			case r.Lag > 0:
				text += fmt.Sprintf("(-%d)", r.Lag)
			}
			if !r.Voter {
				text += "(no vote)"
			}
			replicas = append(replicas, text)
		}
		rows = append(rows, []string{fmt.Sprint(g.Group), fmt.Sprintf("%d-%d", g.First, g.Last),
			cmp.Or(g.Leader, "none"),
			term(g.Term), fmt.Sprint(g.Commit), strings.Join(replicas, " ")})
	}
	return p.table([]string{"group", "slots", "~leader", "term", "committed", "~replicas"}, rows)
}

func (p *paper) replicas(a *answer) error {
	var rows [][]string
	for _, g := range a.Groups {
		for _, r := range g.Replicas {
			state := "works"
			switch {
			case !r.Known && r.Applied > 0:
				state = "silent; as of " + overview.Duration(time.Duration(r.AgeMs)*time.Millisecond) + " ago"
			case !r.Known:
				state = "silent"
			case r.Failed != "":
				state = "failed: " + r.Failed
			case r.Absent:
				state = "absent"
			}
			role := "voter"
			switch {
			case !r.Voter:
				role = "no vote"
			case r.Node == g.Leader:
				role = "leader"
			}
			rows = append(rows, []string{fmt.Sprint(g.Group), r.Node, role, fmt.Sprint(r.Applied),
				fmt.Sprint(r.Last), fmt.Sprint(r.Lag), state})
		}
	}
	return p.table([]string{"group", "~node", "role", "applied", "+last", "behind", "~state"}, rows)
}
