// Several goroutines, one model: each has a context of its own and answers batches of different sizes.
//
//	go run ./serve model.so 4
//
// Any model of one float32 input whose first size varies, such as samples/first.
package main

import (
	"aotc"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
)

func sizes(dims []aotc.Dim, batch int64) (shape []int64, n int64) {
	n = 1
	for _, d := range dims {
		if d.Value < 0 {
			d.Value = batch
		}
		shape, n = append(shape, d.Value), n*d.Value
	}
	return
}

func answers(model *aotc.Model, method aotc.Method, thread int64) (sum float64, err error) {
	context, err := model.Context(aotc.ContextOptions{Threads: 1})
	if err != nil {
		return 0, err
	}
	for batch := int64(1); batch <= 8; batch++ {
		shape, n := sizes(method.Inputs[0].Dims, batch)
		x := make([]float32, n)
		for i := range x {
			x[i] = float32((int64(i)*7+thread)%11) / 11
		}
		in := []aotc.Tensor{aotc.Of(x, shape...)}
		shapes, err := context.OutputBounds(nil, in)
		if err != nil {
			return 0, err
		}
		n = 1
		for _, d := range shapes[0] {
			n *= d
		}
		y := make([]float32, n)
		if err := context.Run(in, []aotc.Tensor{aotc.Of(y, shapes[0]...)}); err != nil {
			return 0, err
		}
		runtime.GC() // what a run borrowed may go or stay
		for _, v := range y {
			sum += float64(v)
		}
	}
	return sum, nil
}

func check(good bool, what string) {
	if !good {
		fmt.Fprintln(os.Stderr, "serve: "+what)
		os.Exit(1)
	}
}

func main() {
	check(len(os.Args) > 1, "serve MODEL.so [THREADS]")
	threads := 2
	if len(os.Args) > 2 {
		threads, _ = strconv.Atoi(os.Args[2])
	}
	model, err := aotc.Open(os.Args[1])
	check(err == nil, fmt.Sprint(err))
	methods, err := model.Methods()
	check(err == nil, fmt.Sprint(err))
	fmt.Println(methods[0].Name, methods[0].Inputs)
	sums, wait := make([]float64, threads), sync.WaitGroup{}
	for t := range sums {
		wait.Add(1)
		go func(t int) {
			defer wait.Done()
			sum, err := answers(model, methods[0], int64(t))
			check(err == nil, fmt.Sprint(err))
			sums[t] = sum
		}(t)
	}
	wait.Wait()
	fmt.Println(sums)

	context, err := model.Context(aotc.ContextOptions{})
	check(err == nil, fmt.Sprint(err))
	shape, n := sizes(methods[0].Inputs[0].Dims, 1)
	x := make([]float32, n)
	in := []aotc.Tensor{aotc.Of(x, shape...)}
	shapes, err := context.OutputBounds(&methods[0], in)
	check(err == nil, fmt.Sprint(err))
	_, n = sizes(nil, 0)
	for _, d := range shapes[0] {
		n *= d
	}
	out := []aotc.Tensor{aotc.Of(make([]float32, n), shapes[0]...)}
	err = context.Run([]aotc.Tensor{aotc.Of(x, int64(len(x))+1)}, out)
	check(errors.Is(err, aotc.InvalidArgument), fmt.Sprint("a slice of another size was taken: ", err))
	err = context.Run([]aotc.Tensor{aotc.Of(x, int64(len(x)))}, out)
	check(err != nil, "a wrong shape was taken")
	fmt.Printf("%v: %v\n", aotc.StatusOf(err), err)
	cancel := aotc.NewCancel()
	cancel.Set()
	err = context.RunWith(aotc.RunOptions{Cancel: cancel}, in, out)
	check(errors.Is(err, aotc.Cancelled), fmt.Sprint("a cancelled run: ", err))
	model.Close() // the context holds what it needs
	check(context.Run(in, out) == nil, "a context of a closed model does not run")
	context.Close()
	check(errors.Is(context.Run(in, out), aotc.WrongState), "a closed context runs")
	_, err = model.Methods()
	check(errors.Is(err, aotc.WrongState), "a closed model answers")
	_, err = aotc.Open("/none.so")
	check(errors.Is(err, aotc.NotFound), fmt.Sprint("a file that is not there: ", err))
	_, err = aotc.OpenMemory([]byte("no artifact"))
	check(errors.Is(err, aotc.Damaged), fmt.Sprint("bytes that are no artifact: ", err))
}
