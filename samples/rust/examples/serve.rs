//! Several threads, one model: each has a context of its own and answers batches of different sizes.
//!
//!     cargo run --release --example serve -- model.so 4
//!
//! Any model of one float32 input whose first size varies, such as samples/first.
use aotc::{Cancel, ContextOptions, Dim, Input, Model, Output, RunOptions, Status};

fn sizes(dims: &[Dim], batch: i64) -> Vec<i64> {
    dims.iter().map(|d| if let Dim::Fixed(n) = d { *n } else { batch }).collect()
}

fn answers(model: &Model, thread: usize) -> aotc::Result<f64> {
    let mut context = model.context_with(&ContextOptions { threads: 1, ..Default::default() })?;
    let (input, output) = (model.inputs()?.remove(0), model.outputs()?.remove(0));
    let mut sum = 0.0;
    for batch in 1..=8 {
        let shape = sizes(&input.dims, batch);
        let x: Vec<f32> = (0..shape.iter().product()).map(|i: i64| ((i * 7 + thread as i64) % 11) as f32 / 11.0).collect();
        let shapes = context.output_bounds(&[Input::new(&x, &shape)?], &[output.dims.len()])?;
        let mut y = vec![0f32; shapes[0].iter().product::<i64>() as usize];
        context.run(&[Input::new(&x, &shape)?], &mut [Output::new(&mut y, &shapes[0])?])?;
        sum += y.iter().map(|&v| f64::from(v)).sum::<f64>();
    }
    Ok(sum)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let (path, threads) = (args.get(1).ok_or("serve MODEL.so [THREADS]")?, args.get(2).map_or(Ok(2), |n| n.parse())?);
    let model = Model::open(path)?;
    println!("{}: {} of {:?}", model.target()?, model.methods()?[0].name, model.inputs()?);
    let sums: Vec<f64> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|t| {
                let model = &model;
                scope.spawn(move || answers(model, t))
            })
            .collect();
        running.into_iter().map(|t| t.join().expect("a thread panicked")).collect::<aotc::Result<_>>()
    })?;
    println!("{sums:?}");

    let method = model.methods()?.remove(0);
    let mut context = model.context()?;
    let dims = &model.inputs()?[0].dims;
    let wrong = vec![0f32; sizes(dims, 3).iter().product::<i64>() as usize + 1];
    let refused = Input::new(&wrong, &sizes(dims, 3)).err().ok_or("a slice of another size was taken")?;
    println!("{}", refused);
    let x = vec![0f32; sizes(dims, 1).iter().product::<i64>() as usize];
    let refused = context.run(&[Input::new(&x, &[x.len() as i64])?], &mut []).err().ok_or("a wrong shape was taken")?;
    println!("{:?}: {}", refused.status, refused);
    let cancel = Cancel::new();
    cancel.set();
    let shape = context.output_bounds(&[Input::new(&x, &sizes(dims, 1))?], &[model.outputs()?[0].dims.len()])?.remove(0);
    let mut y = vec![0f32; shape.iter().product::<i64>() as usize];
    let options = RunOptions { cancel: Some(&cancel), ..Default::default() };
    let ended = context.run_with(&method, &[Input::new(&x, &sizes(dims, 1))?], &mut [Output::new(&mut y, &shape)?], options);
    assert_eq!(ended.unwrap_err().status, Status::Cancelled);
    let traceparent = std::ffi::CStr::from_bytes_with_nul(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\0")?;
    let options = RunOptions { traceparent: Some(traceparent), ..Default::default() };
    context.run_with(&method, &[Input::new(&x, &sizes(dims, 1))?], &mut [Output::new(&mut y, &shape)?], options)?;
    drop(model); // the context holds what it needs
    context.run_method(&method, &[Input::new(&x, &sizes(dims, 1))?], &mut [Output::new(&mut y, &shape)?])?;
    assert_eq!(Model::open("/none.so").err().map(|e| e.status), Some(Status::NotFound));
    assert_eq!(Model::from_bytes(b"no artifact").err().map(|e| e.status), Some(Status::Damaged));
    Ok(())
}
