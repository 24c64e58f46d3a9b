package chart

import (
	"math"
	"slices"
)

// Axis maps values to lengths.
type Axis struct {
	Name      string
	Low, High float64 // the values at its ends
	Log       bool    // logarithmic; Low is above 0
	Ticks     []Tick
	from, to  float64 // the lengths at its ends
}

// Tick is a value that an axis shows.
type Tick struct {
	At   float64
	Text string
}

// at returns the length of a value, and that of the nearer end if the value is outside.
func (a *Axis) at(v float64) float64 {
	low, high := a.Low, a.High
	v = min(max(v, low), high)
	if a.Log {
		low, high, v = math.Log(low), math.Log(high), math.Log(v)
	}
	return a.from + (v-low)/(high-low)*(a.to-a.from)
}

// LogAxis spans the positive values in whole decades, or in 1-2-5 steps if there are few decades.
func LogAxis(name string, values []float64, text func(float64) string) Axis {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	if high == 0 {
		low, high = 0.1, 1
	}
	steps := []float64{1}
	if high/low < 150 {
		steps = []float64{1, 2, 5}
	}
	var marks []float64
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, s := range steps {
			marks = append(marks, s*math.Pow(10, e))
		}
	}
	for len(marks) > 2 && marks[1] <= low {
		marks = marks[1:]
	}
	for len(marks) > 2 && marks[len(marks)-2] >= high {
		marks = marks[:len(marks)-1]
	}
	a := Axis{Name: name, Log: true, Low: marks[0], High: marks[len(marks)-1]}
	for _, m := range marks {
		a.Ticks = append(a.Ticks, Tick{m, text(m)})
	}
	return a
}

// Fit moves the ends of the axis to low and high if they are outside of these, and removes the ticks there.
func (a *Axis) Fit(low, high float64) {
	a.Low, a.High = max(a.Low, low), min(a.High, high)
	a.Ticks = slices.DeleteFunc(a.Ticks, func(t Tick) bool { return t.At < a.Low || t.At > a.High })
}
