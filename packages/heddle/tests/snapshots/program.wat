(module
  (import "heddle" "memory" (memory 1 65536 shared))
  (global $scratch (mut i32) (i32.const 0))
  (func $scale_0 (param $x i32) (param $by f32) (param $gridX i32) (param $gridY i32) (param $gridZ i32) (param $start i32) (param $end i32)
    (local $scratch i32)
    (local $shared i32)
    local.get $start
    local.get $end
    i32.lt_u
    if $if
      global.get 0
      local.set $scratch
      loop $blocks
        block $return
          local.get $x
          local.get $start
          i32.const 2
          i32.shl
          i32.add
          local.set $shared
          local.get $shared
          local.get $shared
          f32.load
          local.get $by
          f32.mul
          f32.store
        end
        local.get $start
        i32.const 1
        i32.add
        local.set $start
        local.get $start
        local.get $end
        i32.lt_u
        br_if $blocks
      end
    end)
  (func $barrier (param $threads i32) (result i32)
    (local $generation i32)
    (local $left i32)
    local.get $threads
    i32.const 1
    i32.eq
    if $if
      i32.const 0
      return
    end
    i32.const 0
    i32.atomic.load offset=448
    local.set $generation
    i32.const 0
    i32.const 1
    i32.atomic.rmw.add offset=384
    i32.const 1
    i32.add
    local.get $threads
    i32.eq
    if $if.1
      i32.const 0
      i32.const 0
      i32.atomic.store offset=384
      i32.const 0
      i32.const 1
      i32.atomic.rmw.add offset=448
      drop
      i32.const 0
      i32.atomic.load offset=512
      if $if.2
        i32.const 0
        i32.const -1
        memory.atomic.notify offset=448
        drop
      end
      i32.const 0
      i32.atomic.load offset=576
      return
    end
    i32.const 20000
    local.set $left
    block $open
      loop $look
        i32.const 0
        i32.atomic.load offset=448
        local.get $generation
        i32.ne
        br_if $open
        i32.const 0
        i32.atomic.load offset=576
        br_if $open
        local.get $left
        i32.const 1
        i32.sub
        local.tee $left
        br_if $look
        i32.const 0
        i32.const 1
        i32.atomic.rmw.add offset=512
        drop
        i32.const 0
        local.get $generation
        i64.const 50000000
        memory.atomic.wait32 offset=448
        drop
        i32.const 0
        i32.const -1
        i32.atomic.rmw.add offset=512
        drop
        i32.const 1
        local.set $left
        br $look
      end
    end
    i32.const 0
    i32.atomic.load offset=576)
  (func $run (param $table i32) (param $scratch i32) (param $thread i32) (param $threads i32) (result i32)
    (local $start i32)
    (local $end i32)
    local.get $scratch
    local.get $thread
    i32.const 0
    i32.mul
    i32.add
    global.set 0
    local.get $thread
    i32.eqz
    if $if
      local.get $table
      i32.load
      f32.const 0.5
      i32.const 10
      i32.const 1
      i32.const 1
      i32.const 0
      i32.const 10
      call $scale_0
    end
    local.get $thread
    i32.eqz
    if $if.1
      local.get $table
      i32.load offset=4
      i32.const 64
      i32.add
      f32.const 0.5
      i32.const 20
      i32.const 1
      i32.const 1
      i32.const 0
      i32.const 20
      call $scale_0
    end
    local.get $threads
    call $barrier
    if $if.2
      i32.const 1
      return
    end
    i32.const 4999
    local.get $threads
    i32.div_u
    i32.const 1
    i32.add
    local.get $thread
    i32.mul
    local.set $start
    local.get $start
    i32.const 5000
    local.get $start
    i32.const 5000
    i32.lt_u
    select
    local.set $start
    local.get $start
    i32.const 4999
    local.get $threads
    i32.div_u
    i32.const 1
    i32.add
    i32.add
    local.set $end
    local.get $end
    i32.const 5000
    local.get $end
    i32.const 5000
    i32.lt_u
    select
    local.set $end
    local.get $table
    i32.load
    f32.const 0.5
    i32.const 5000
    i32.const 1
    i32.const 1
    local.get $start
    local.get $end
    call $scale_0
    i32.const 4999
    local.get $threads
    i32.div_u
    i32.const 1
    i32.add
    local.get $thread
    i32.mul
    local.set $start
    local.get $start
    i32.const 5000
    local.get $start
    i32.const 5000
    i32.lt_u
    select
    local.set $start
    local.get $start
    i32.const 4999
    local.get $threads
    i32.div_u
    i32.const 1
    i32.add
    i32.add
    local.set $end
    local.get $end
    i32.const 5000
    local.get $end
    i32.const 5000
    i32.lt_u
    select
    local.set $end
    local.get $table
    i32.load offset=4
    i32.const 64
    i32.add
    f32.const 0.5
    i32.const 5000
    i32.const 1
    i32.const 1
    local.get $start
    local.get $end
    call $scale_0
    local.get $threads
    call $barrier
    if $if.3
      i32.const 1
      return
    end
    local.get $thread
    i32.eqz
    if $if.4
      local.get $table
      i32.load offset=4
      i32.const 64
      i32.add
      f32.const 0.5
      i32.const 7
      i32.const 1
      i32.const 1
      i32.const 0
      i32.const 7
      call $scale_0
    end
    local.get $threads
    call $barrier
    if $if.5
      i32.const 1
      return
    end
    i32.const 0)
  (export "run" (func $run)))
