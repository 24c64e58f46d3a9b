package docs_test

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The measures of the picture of rooms, in pixels. A group is a step of the full width, with rows of rooms.
const (
	pictureWidth = 800
	pictureEdge  = 10  // around everything
	roomsLeft    = 144 // where the rooms begin, after the name of their group
	roomWidth    = 100
	roomHeight   = 34
	roomGap      = 8
	roomsInRow   = 6
	stepGap      = 6
	letterWidth  = 7 // of the names of rooms, at least
)

// picturePrefix is what a picture begins with: a format of its width, its height and its groups.
//
//go:embed testdata/rooms-prefix.svg
var picturePrefix string

// drawRooms returns the picture: a step for each of the groups, which are listed from the lowest on.
func drawRooms(t *testing.T, order []string, all map[string]room) string {
	var steps strings.Builder
	top := pictureEdge
	for _, group := range slices.Backward(order) {
		var names []string
		for name, r := range all {
			if r.group == group {
				names = append(names, name)
			}
		}
		require.NotEmpty(t, names, "the group %s has no rooms", group)
		slices.Sort(names)
		top += drawStep(t, &steps, top, group, names) + stepGap
	}
	fmt.Fprintf(&steps, "\n  <g transform=\"translate(%d %d)\">\n", pictureEdge, top+6)
	at := 0
	for _, kind := range []struct{ class, note string }{
		{"command", "command, a module of its own"}, {"public", "public"}, {"internal", "internal"},
	} {
		fmt.Fprintf(&steps, "    <rect class=\"%s\" x=\"%d\" width=\"18\" height=\"12\" rx=\"3\"/>"+
			"<text class=\"note\" x=\"%d\" y=\"11\">%s</text>\n", kind.class, at, at+24, kind.note)
		at += 44 + 7*len(kind.note)
	}
	fmt.Fprintf(&steps, "    <text class=\"note\" x=\"%d\" y=\"11\" text-anchor=\"end\">%s</text>\n  </g>\n</svg>\n",
		pictureWidth-2*pictureEdge, "A room imports only its own group and those below.")
	descending := slices.Clone(order)
	slices.Reverse(descending)
	return fmt.Sprintf(picturePrefix, pictureWidth, top+28, strings.Join(descending, ", ")) + steps.String()
}

// drawStep draws a group with its rooms, and returns its height.
func drawStep(t *testing.T, to *strings.Builder, top int, group string, names []string) (height int) {
	rows := (len(names) + roomsInRow - 1) / roomsInRow
	height = rows*(roomHeight+roomGap) + roomGap
	fmt.Fprintf(to, "\n  <g id=\"%s\" transform=\"translate(%d %d)\">\n", group, pictureEdge, top)
	fmt.Fprintf(to, "    <rect class=\"step\" width=\"%d\" height=\"%d\" rx=\"6\"/>", pictureWidth-2*pictureEdge, height)
	if strings.HasPrefix(names[0], "internal/") {
		fmt.Fprintf(to, "<text class=\"group\" x=\"14\" y=\"%d\">%s</text>", height/2, group)
		fmt.Fprintf(to, "<text class=\"note\" x=\"14\" y=\"%d\">internal/%s</text>\n", height/2+16, group)
	} else {
		fmt.Fprintf(to, "<text class=\"group\" x=\"14\" y=\"%d\">%s</text>\n", height/2+6, group)
	}
	for i, name := range names {
		x := roomsLeft - pictureEdge + i%roomsInRow*(roomWidth+roomGap)
		y := roomGap + i/roomsInRow*(roomHeight+roomGap)
		fmt.Fprintf(to, "    <rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\"/>",
			classOf(name), x, y, roomWidth, roomHeight)
		dir, last := path.Split(strings.TrimPrefix(strings.TrimPrefix(name, "internal/"), group+"/"))
		require.LessOrEqual(t, letterWidth*len(last), roomWidth-8, "%s is too long for its box", last)
		middle := x + roomWidth/2
		if dir == "" {
			fmt.Fprintf(to, "<text class=\"name\" x=\"%d\" y=\"%d\">%s</text>\n", middle, y+22, last)
			continue
		}
		fmt.Fprintf(to, "<text class=\"name\"><tspan class=\"dir\" x=\"%d\" y=\"%d\">%s</tspan>"+
			"<tspan x=\"%d\" y=\"%d\">%s</tspan></text>\n", middle, y+14, dir, middle, y+28, last)
	}
	to.WriteString("  </g>\n")
	return height
}

// classOf returns how a room is drawn.
func classOf(name string) string {
	switch {
	case strings.HasPrefix(name, "internal/"), strings.Contains(name, "/internal/"), name == "testdata":
		return "internal"
	case strings.HasPrefix(name, "cmd/"):
		return "command"
	}
	return "public"
}
