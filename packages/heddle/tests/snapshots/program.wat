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
  (func $await (param $address i32) (param $limit i32) (result i32)
    (local $seen i32)
    (local $left i32)
    i32.const 20000
    local.set $left
    block $reached
      loop $look
        local.get $address
        i32.atomic.load
        local.tee $seen
        local.get $limit
        i32.sub
        i32.const 0
        i32.ge_s
        br_if $reached
        i32.const 0
        i32.atomic.load offset=512
        if $if
          i32.const 1
          return
        end
        local.get $left
        i32.const 1
        i32.sub
        local.tee $left
        br_if $look
        i32.const 0
        i32.const 1
        i32.atomic.rmw.add offset=448
        drop
        local.get $address
        local.get $seen
        i64.const 50000000
        memory.atomic.wait32
        i32.const 0
        i32.const -1
        i32.atomic.rmw.add offset=448
        drop
        i32.const 2
        i32.eq
        if $if.1
          i32.const 2
          return
        end
        i32.const 1
        local.set $left
        br $look
      end
    end
    i32.const 0)
  (func $run (param $table i32) (param $scratch i32) (param $thread i32) (param $epoch i32) (result i32)
    (local $limit i32)
    (local $claimed i32)
    (local $mine i32)
    (local $start i32)
    (local $status i32)
    local.get $scratch
    local.get $thread
    i32.const 0
    i32.mul
    i32.add
    global.set 0
    local.get $epoch
    i32.const 1
    i32.add
    i32.const 1
    i32.mul
    local.set $limit
    i32.const 0
    local.set $mine
    local.get $thread
    i32.eqz
    if $if
      local.get $table
      i32.atomic.load offset=128
      local.get $limit
      i32.sub
      i32.const 0
      i32.lt_s
      if $if.1
        local.get $table
        i32.load
        f32.const 0.5
        i32.const 10
        i32.const 1
        i32.const 1
        i32.const 0
        i32.const 10
        call $scale_0
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
        i32.const 1
        local.set $mine
      end
    end
    local.get $mine
    if $if.2
      local.get $table
      local.get $mine
      i32.atomic.rmw.add offset=128
      local.get $mine
      i32.add
      local.get $limit
      i32.eq
      if $if.3
        i32.const 0
        i32.atomic.load offset=448
        if $if.4
          local.get $table
          i32.const -1
          memory.atomic.notify offset=128
          drop
        end
      end
    end
    local.get $table
    i32.const 128
    i32.add
    local.get $limit
    call $await
    local.tee $status
    if $if.5
      local.get $status
      return
    end
    local.get $epoch
    i32.const 1
    i32.add
    i32.const 16
    i32.mul
    local.set $limit
    i32.const 0
    local.set $mine
    block $claimed.1
      loop $claim
        local.get $table
        i32.atomic.load offset=192
        local.tee $claimed
        local.get $limit
        i32.sub
        i32.const 0
        i32.ge_s
        br_if $claimed.1
        local.get $table
        local.get $claimed
        local.get $claimed
        i32.const 1
        i32.add
        i32.atomic.rmw.cmpxchg offset=192
        local.get $claimed
        i32.ne
        br_if $claim
        local.get $mine
        i32.const 1
        i32.add
        local.set $mine
        local.get $claimed
        local.get $limit
        i32.sub
        i32.const 16
        i32.add
        local.set $claimed
        local.get $claimed
        i32.const 8
        i32.lt_u
        if $if.6
          local.get $claimed
          i32.const 625
          i32.mul
          local.set $start
          local.get $table
          i32.load
          f32.const 0.5
          i32.const 5000
          i32.const 1
          i32.const 1
          local.get $start
          local.get $start
          i32.const 625
          i32.add
          i32.const 5000
          local.get $start
          i32.const 4375
          i32.lt_u
          select
          call $scale_0
          br $claim
        end
        local.get $claimed
        i32.const 8
        i32.sub
        local.set $claimed
        local.get $claimed
        i32.const 8
        i32.lt_u
        if $if.7
          local.get $claimed
          i32.const 625
          i32.mul
          local.set $start
          local.get $table
          i32.load offset=4
          i32.const 64
          i32.add
          f32.const 0.5
          i32.const 5000
          i32.const 1
          i32.const 1
          local.get $start
          local.get $start
          i32.const 625
          i32.add
          i32.const 5000
          local.get $start
          i32.const 4375
          i32.lt_u
          select
          call $scale_0
          br $claim
        end
        local.get $claimed
        i32.const 8
        i32.sub
        local.set $claimed
        br $claim
      end
    end
    local.get $mine
    if $if.8
      local.get $table
      local.get $mine
      i32.atomic.rmw.add offset=256
      local.get $mine
      i32.add
      local.get $limit
      i32.eq
      if $if.9
        i32.const 0
        i32.atomic.load offset=448
        if $if.10
          local.get $table
          i32.const -1
          memory.atomic.notify offset=256
          drop
        end
      end
    end
    local.get $table
    i32.const 256
    i32.add
    local.get $limit
    call $await
    local.tee $status
    if $if.11
      local.get $status
      return
    end
    local.get $epoch
    i32.const 1
    i32.add
    i32.const 1
    i32.mul
    local.set $limit
    i32.const 0
    local.set $mine
    local.get $thread
    i32.eqz
    if $if.12
      local.get $table
      i32.atomic.load offset=384
      local.get $limit
      i32.sub
      i32.const 0
      i32.lt_s
      if $if.13
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
        i32.const 1
        local.set $mine
      end
    end
    local.get $mine
    if $if.14
      local.get $table
      local.get $mine
      i32.atomic.rmw.add offset=384
      local.get $mine
      i32.add
      local.get $limit
      i32.eq
      if $if.15
        i32.const 0
        i32.atomic.load offset=448
        if $if.16
          local.get $table
          i32.const -1
          memory.atomic.notify offset=384
          drop
        end
      end
    end
    local.get $thread
    i32.eqz
    if $if.17
      local.get $table
      i32.const 384
      i32.add
      local.get $limit
      call $await
      local.tee $status
      if $if.18
        local.get $status
        return
      end
    end
    i32.const 0)
  (export "run" (func $run)))
