// SPDX-License-Identifier: GPL-2.0
//! Measures Tokio's sleeps. bench/timers/rival.c requests operations in shared memory.
//!
//! All sleeps are pinned in one array, without a task or an allocation for each. They are polled
//! outside of the runtime, with a waker that does nothing.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep_until, Instant, Sleep};

/// The number of words in a request, as in rival.c.
const REQUEST: usize = 16384;

const OPEN: u64 = 0;
const ARM: u64 = 1;
const MOVE: u64 = 2;
const CANCEL: u64 = 3;
const PAIR: u64 = 4;
const TURNOVER: u64 = 5;
const DELIVER: u64 = 6;

/// `struct request` of rival.c.
#[repr(C)]
struct Request {
    verb: u64,
    nr: u64,
    when: u64,
    step: u64,
    cpu: u64,
    failed: u64,
    reserved: [u64; 2],
    word: [u64; REQUEST],
}

struct NoWake;

impl Wake for NoWake {
    fn wake(self: Arc<Self>) {}
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };

    // SAFETY: clock_gettime() only writes to the timespec.
    unsafe { libc::clock_gettime(id, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// Returns the Instant at which CLOCK_MONOTONIC is at these ns, or the current one if that is past.
fn instant(ns: u64) -> Instant {
    let now = Instant::now();

    now + Duration::from_nanos(ns.saturating_sub(clock(libc::CLOCK_MONOTONIC)))
}

struct Timers {
    sleeps: Pin<Box<[Option<Sleep>]>>,
    waker: Waker,
}

impl Timers {
    fn new(nr: u64) -> Self {
        let sleeps: Box<[Option<Sleep>]> = (0..nr).map(|_| None).collect();

        Timers { sleeps: sleeps.into(), waker: Arc::new(NoWake).into() }
    }

    #[inline(always)]
    fn at(&mut self, handle: u64) -> Pin<&mut Option<Sleep>> {
        Self::of(&mut self.sleeps, handle)
    }

    #[inline(always)]
    fn of(sleeps: &mut Pin<Box<[Option<Sleep>]>>, handle: u64) -> Pin<&mut Option<Sleep>> {
        // SAFETY: no element is moved out of the slice, which itself never moves.
        unsafe { sleeps.as_mut().map_unchecked_mut(|s| &mut s[handle as usize]) }
    }

    /// Returns true if the timer was idle and is now armed.
    #[inline(always)]
    fn arm(&mut self, handle: u64, when: Instant) -> bool {
        let mut slot = Self::of(&mut self.sleeps, handle);
        let idle = slot.is_none();

        slot.set(Some(sleep_until(when)));
        idle && slot.as_pin_mut().unwrap().poll(&mut Context::from_waker(&self.waker)).is_pending()
    }

    #[inline(always)]
    fn reset(&mut self, handle: u64, when: Instant) -> bool {
        match self.at(handle).as_pin_mut() {
            Some(sleep) => {
                sleep.reset(when);
                true
            }
            None => false,
        }
    }

    #[inline(always)]
    fn cancel(&mut self, handle: u64) -> bool {
        let mut slot = self.at(handle);
        let armed = slot.is_some();

        slot.set(None);
        armed
    }

    /// Waits, and looks at each sleep to find those that have elapsed meanwhile.
    fn deliver(&mut self, runtime: &Runtime, request: &mut Request) {
        let until = instant(request.when);
        let mut nr = 0;

        while Instant::now() < until {
            runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
            for handle in 0..self.sleeps.len() as u64 {
                if 2 * nr == REQUEST {
                    break;
                }
                if self.at(handle).as_pin_mut().map_or(false, |sleep| sleep.is_elapsed()) {
                    self.cancel(handle);
                    request.word[2 * nr] = clock(libc::CLOCK_MONOTONIC);
                    request.word[2 * nr + 1] = handle;
                    nr += 1;
                }
            }
        }
        request.nr = nr as u64;
    }
}

/// Applies @one to each handle and its deadline.
#[inline(always)]
fn each(request: &mut Request, mut one: impl FnMut(u64, Instant) -> bool) {
    let step = Duration::from_nanos(request.step);
    let mut failed = 0;
    let start = clock(libc::CLOCK_THREAD_CPUTIME_ID);
    let mut when = instant(request.when);

    for &handle in &request.word[..request.nr as usize] {
        failed += !one(handle, when) as u64;
        when += step;
    }
    request.cpu = clock(libc::CLOCK_THREAD_CPUTIME_ID) - start;
    request.failed = failed;
}

fn main() {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = runtime.enter();
    // SAFETY: descriptor 3 is a file of this size, which only one of the two programs uses at a
    // time.
    let request = unsafe {
        let size = std::mem::size_of::<Request>();
        let flags = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(std::ptr::null_mut(), size, flags, libc::MAP_SHARED, 3, 0);

        assert_ne!(at, libc::MAP_FAILED);
        &mut *(at as *mut Request)
    };
    let mut timers = Timers::new(0);
    let mut byte = 0u8;

    // SAFETY: one byte is read and written.
    while unsafe { libc::read(0, &mut byte as *mut u8 as *mut _, 1) } == 1 {
        match request.verb {
            OPEN => timers = Timers::new(request.nr),
            ARM => each(request, |handle, when| timers.arm(handle, when)),
            MOVE => each(request, |handle, when| timers.reset(handle, when)),
            CANCEL => each(request, |handle, _| timers.cancel(handle)),
            PAIR => each(request, |handle, when| timers.arm(handle, when) && timers.cancel(handle)),
            TURNOVER => {
                each(request, |handle, when| timers.cancel(handle) && timers.arm(handle, when))
            }
            DELIVER => timers.deliver(&runtime, request),
            _ => panic!("no such verb"),
        }
        unsafe { libc::write(0, &byte as *const u8 as *const _, 1) };
    }
    // Exit without dropping the sleeps one by one, which would take long.
    std::process::exit(0);
}
