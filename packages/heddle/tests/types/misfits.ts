/** Shapes that do not fit: types.test.ts looks for the text after `//` in what the compiler says of the line. */
import { cat, linear, nn, randn, type Tensor, zeros } from 'heddle';

const x = randn([64, 784]);

x.matmul(zeros([100, 10])); // not assignable to parameter of type '"inner dimensions differ: 784 and 100"'
zeros([8, 3, 4]).matmul(zeros([5, 4, 6])); // "cannot broadcast 8 with 5 on axis -3"
x.add(zeros([3])); // not assignable to parameter of type '"cannot broadcast 784 with 3 on axis -1"'
x.lt(zeros([63, 1])); // "cannot broadcast 64 with 63 on axis -2"
x.reshape([64, 783]); // "cannot reshape 50176 elements to 50112"
cat([x, zeros([64, 783])]); // "cat: sizes on axis 1 differ: 784 and 783"
linear(x, zeros([10, 100])); // '"inner dimensions differ: 784 and 100"'
new nn.Linear(100, 10).forward(x); // 'Tensor<[64, 784], "f32">' is not assignable to parameter of type 'Tensor<[64, 100], "f32">'
new nn.Conv2d(3, 6, 5).forward(zeros([8, 1, 28, 28])); // is not assignable to parameter of type 'Tensor<[8, 3, 28, 28], "f32">'
const wrong: Tensor<[64, 10]> = x; // Type 'Tensor<[64, 784], "f32">' is not assignable to type 'Tensor<[64, 10]

export const used = wrong;
